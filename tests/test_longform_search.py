"""CTC search finds what counting all alignments finds, in the best one's frames."""

import itertools
import math

import numpy as np
import pytest
import torch

from espnet_srupp.longform import search
from espnet_srupp.longform.beams import Beams, log_add
from espnet_srupp.longform.words import Token

BLANK = 0


def log_probs(*rows):
    return torch.tensor(rows).log()


def random(frames, vocabulary, seed, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(frames, vocabulary, generator=generator)
    return scores.log_softmax(-1)


def collapsed(path):
    return tuple(id for id, _ in itertools.groupby(path) if id != BLANK)


def every_alignment(table):
    """Log-probability and path of every alignment, by the tokens that it spells."""
    frames, vocabulary = table.shape
    found = {}
    for path in itertools.product(range(vocabulary), repeat=frames):
        score = sum(table[t, id].item() for t, id in enumerate(path))
        found.setdefault(collapsed(path), []).append((score, path))
    return found


def ids(tokens):
    return tuple(token.id for token in tokens)


def spelled(tokens, frames):
    """The alignment that tokens stand in."""
    path = [BLANK] * frames
    for token in tokens:
        path[token.begin : token.end] = [token.id] * (token.end - token.begin)
    return tuple(path)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("frames", "vocabulary"), [(1, 2), (4, 3), (6, 3), (5, 4)])
def test_wide_prefix_search_finds_the_most_probable_tokens(frames, vocabulary, seed):
    table = random(frames, vocabulary, seed)
    alignments = every_alignment(table)
    totals = {
        tokens: torch.tensor([score for score, _ in some]).logsumexp(0).item()
        for tokens, some in alignments.items()
    }
    found = search.prefix([table], BLANK, beam=10_000)
    assert ids(found) == max(totals, key=totals.get)
    assert spelled(found, frames) == max(alignments[ids(found)])[1]


class Heard:
    """A language model that has an opinion of each token after any others."""

    def __init__(self, tokens=()):
        self.tokens = tokens
        self.scores = opinion(tokens)

    def begin(self):
        return Heard()

    def follow(self, steps):
        return [Heard((*before.tokens, id)) for before, id in steps]


def opinion(tokens):
    seed = sum((id + 1) * 13**place for place, id in enumerate(tokens))
    return np.random.default_rng(seed).normal(-2, 2, 12)


def scored(tokens):
    """What it adds to a sequence."""
    return sum(opinion(tokens[:place])[id] for place, id in enumerate(tokens))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("frames", "vocabulary"), [(4, 3), (6, 3), (5, 4)])
def test_a_language_model_counts_at_each_token(frames, vocabulary, seed):
    table = random(frames, vocabulary, seed)
    alignments = every_alignment(table)
    totals = {
        tokens: torch.tensor([score for score, _ in some]).logsumexp(0) + scored(tokens)
        for tokens, some in alignments.items()
    }
    found = search.prefix([table], BLANK, 10_000, Heard())
    assert ids(found) == max(totals, key=totals.get)
    assert spelled(found, frames) == max(alignments[ids(found)])[1]


@pytest.mark.parametrize("seed", range(20))
def test_totals_are_those_of_all_alignments(seed):
    table = random(5, 3, seed)
    alignments = every_alignment(table)
    kept = Beams(BLANK, 10_000)
    for row in table.double().numpy():
        kept.advance(row, np.array([1, 2]))
    for prefix, state in kept.states.items():
        tokens = ()
        while prefix.parent is not None:
            tokens, prefix = (prefix.last, *tokens), prefix.parent
        scores = [score for score, _ in alignments.get(tokens, [])]
        expected = torch.tensor(scores).logsumexp(0).item() if scores else -math.inf
        assert state.total == pytest.approx(expected, abs=1e-5)


def kept_plainly(table, beam, opinion=lambda tokens: np.zeros(12)):
    """Prefix beam search with lists, and with every token tried in every frame."""
    kept = {(): (0.0, -math.inf)}
    for row in table.double().tolist():
        made = {}

        def add(tokens, blank, token, made=made):
            old = made.get(tokens, (-math.inf, -math.inf))
            pairs = zip(old, (blank, token), strict=True)
            made[tokens] = tuple(log_add(a, b) for a, b in pairs)

        for tokens, (blank, token) in kept.items():
            total = log_add(blank, token)
            add(tokens, total + row[BLANK], -math.inf)
            if tokens:
                add(tokens, -math.inf, token + row[tokens[-1]])
            said = opinion(tokens)
            for id in range(1, len(row)):
                before = blank if tokens and tokens[-1] == id else total
                add((*tokens, id), -math.inf, before + row[id] + said[id])
        best = sorted(made, key=lambda tokens: -log_add(*made[tokens]))
        kept = {tokens: made[tokens] for tokens in best[:beam]}
    return max(kept, key=lambda tokens: log_add(*kept[tokens]))


# where tokens are nearly as probable, one that is not among the best in a frame may
# still lead from a prefix that is kept to another
@pytest.mark.parametrize("spread", [0.3, 2.0], ids=["unsure", "sure"])
@pytest.mark.parametrize("beam", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_pruned_but_to_the_beam(beam, seed, spread):
    table = random(60, 12, seed, spread)
    assert ids(search.prefix([table], BLANK, beam)) == kept_plainly(table, beam)


@pytest.mark.parametrize("spread", [0.3, 2.0], ids=["unsure", "sure"])
@pytest.mark.parametrize("beam", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(5))
def test_nor_is_anything_that_a_language_model_prefers(beam, seed, spread):
    table = random(60, 12, seed, spread)
    found = search.prefix([table], BLANK, beam, Heard())
    assert ids(found) == kept_plainly(table, beam, opinion)


def test_what_a_language_model_expects_is_kept_with_the_beam_alone():
    beams = Beams(BLANK, 3, Heard())
    for row in random(40, 12, 0).double().numpy():
        beams.advance(row, np.arange(1, 12))
        assert all(prefix.expected is not None for prefix in beams.states)
        others = [
            prefix for prefix in beams.known.values() if prefix not in beams.states
        ]
        assert others and all(prefix.expected is None for prefix in others)


def test_prefix_search_sums_where_greedy_does_not():
    # "a" is the sum of three alignments of 0.24, 0.24 and 0.16, no token one of 0.36
    table = log_probs([0.6, 0.4], [0.6, 0.4])
    assert search.greedy([table], BLANK) == []
    assert ids(search.prefix([table], BLANK, 2)) == (1,)


CERTAIN = 0.99998


def certain(path, vocabulary=3):
    rows = torch.full((len(path), vocabulary), (1 - CERTAIN) / (vocabulary - 1))
    rows[range(len(path)), path] = CERTAIN
    return rows.log()


SEARCHES = {
    "greedy": lambda tiles: search.greedy(tiles, BLANK),
    "beam of 1": lambda tiles: search.prefix(tiles, BLANK, 1),
    "beam of 9": lambda tiles: search.prefix(tiles, BLANK, 9),
}


@pytest.mark.parametrize("find", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param([0, 0, 0], [], id="all blank"),
        pytest.param([1, 1, 0, 1], [(1, 0, 2), (1, 3, 4)], id="repeated over a blank"),
        pytest.param([1, 1, 1], [(1, 0, 3)], id="one long token"),
        pytest.param([1, 2, 2, 1], [(1, 0, 1), (2, 1, 3), (1, 3, 4)], id="no blank"),
        pytest.param([0, 2, 0], [(2, 1, 2)], id="between blanks"),
    ],
)
def test_tokens_lie_in_their_frames(find, path, expected):
    table = certain(path)
    tokens = [Token(*item) for item in expected]
    assert find([table]) == tokens
    # however the frames are cut
    assert find(table.split(1)) == tokens
    assert find(table.split(2)) == tokens


@pytest.mark.parametrize("find", SEARCHES.values(), ids=SEARCHES)
def test_no_frames_hold_no_tokens(find):
    assert find([]) == []


def test_a_long_recording_keeps_each_token_once():
    path = [1, 0, 2, 2, 0, 1, 2, 0] * 500
    kept = Beams(BLANK, 4)
    for row in certain(path).double().numpy():
        kept.advance(row, np.array([1, 2]))
    assert ids(kept.tokens()) == (1, 2, 1, 2) * 500
    # and what left the beam is gone
    linked = set()
    for prefix in kept.states:
        while prefix is not None:
            linked.add(prefix)
            prefix = prefix.parent
    assert {*kept.known.values()} == linked


def test_impossible_tokens_are_not_taken():
    table = log_probs([0.5, 0.5, 0.0], [1.0, 0.0, 0.0])
    assert ids(search.prefix([table], BLANK, 5)) in {(), (1,)}
    assert ids(search.prefix([table[:1]], BLANK, 5)) in {(), (1,)}
