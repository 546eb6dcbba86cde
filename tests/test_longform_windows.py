"""Windows cover a recording, and their words are joined without loss or doubling."""

from types import SimpleNamespace

import pytest
import torch
from espnet2.asr.ctc import CTC
from espnet2.bin.asr_inference import BatchBeamSearch, BatchScorerInterface, BeamSearch
from torch import nn

from espnet_srupp.longform.windows import (
    Joint,
    agreed,
    aligned,
    beam_search,
    joined,
    nearest,
    spans,
)
from espnet_srupp.longform.words import Clock, Spelling, Token, Word, text_of


def words(text, start=0.0, shift=0.0):
    """Words of 0.3 s, one each half second from `start` on."""
    times = [start + shift + n / 2 for n in range(len(text.split()))]
    return [Word(w, t, t + 0.3) for w, t in zip(text.split(), times, strict=True)]


def text(found):
    return " ".join(word.text for word in found)


class Batched(nn.Module, BatchScorerInterface):
    """A decoder, or a language model, that scores hypotheses together."""


class OneByOne(nn.Module, BatchScorerInterface.__base__):
    """One that scores each by itself, as ESPnet's RNN decoder."""


class Model(nn.Module):
    blank_id, sos, eos, token_list = 0, 2, 2, ("<blank>", "A", "<sos/eos>")

    def __init__(self, decoder):
        super().__init__()
        self.decoder, self.ctc = decoder, CTC(odim=3, encoder_output_size=4)


@pytest.mark.parametrize(
    ("decoder", "lm", "expected"),
    [
        (Batched, Batched, BatchBeamSearch),
        (OneByOne, Batched, BeamSearch),
        (Batched, OneByOne, BeamSearch),
    ],
)
def test_hypotheses_are_scored_together_if_all_who_score_can(decoder, lm, expected):
    assert type(beam_search(Model(decoder()), 2, 0.3, lm(), 0.5)) is expected


@pytest.mark.parametrize("frames", [1, 50, 99, 100, 101, 180, 181, 1000, 12_345])
@pytest.mark.parametrize("overlap", [0, 1, 20, 50])
def test_windows_cover_all_and_overlap_enough(frames, overlap):
    found = list(spans(frames, 100, overlap))
    assert found[0][0] == 0 and found[-1][1] == frames
    assert all(end - begin == min(100, frames) for begin, end in found)
    pairs = list(zip(found, found[1:], strict=False))
    assert all(before[1] - after[0] >= overlap for before, after in pairs)
    assert len(found) == 1 if frames <= 100 else len(found) > 1


class Silent:
    """A recogniser that notes which frames it encodes, and makes none of them."""

    frame = 0.01
    spelling = Spelling("char", ["<blank>"])

    def __init__(self):
        self.heard = []

    def encode(self, xs):
        self.heard.append((int(xs[0]), int(xs[-1]) + 1))
        return xs[:0], Clock(0.0, self.frame)


def test_window_and_overlap_are_given_in_seconds():
    recogniser, shares = Silent(), []
    decoder = Joint(recogniser, None, window=2.0, overlap=0.5)
    # without frames there is nothing to search
    assert decoder.words(torch.arange(600), 6.0, shares.append) == []
    assert recogniser.heard == list(spans(600, 200, 50))
    assert shares == [end / 600 for _, end in recogniser.heard]


class Numbered(Joint):
    """Hears the number of the window at each tenth frame, wherever that begins."""

    def decode(self, xs):
        self.recogniser.windows += 1
        heard = range(-int(xs[0]) % 10, len(xs), 10)
        return [Token(self.recogniser.windows, t, t + 2) for t in heard]


class Heard(Silent):
    """Gives the features as they are, the first of them half a frame late."""

    windows = 0
    spelling = Spelling("word", ["<blank>", *"ABCD"])

    def encode(self, xs):
        return xs, Clock(self.frame / 2, self.frame)


def test_words_of_each_window_reach_to_the_middle_of_its_overlaps():
    decoder = Numbered(Heard(), None, window=2.0, overlap=0.5)
    found = decoder.words(torch.arange(600), 6.0, lambda _: None)
    assert [w.start for w in found] == pytest.approx(
        [t / 10 + 0.005 for t in range(60)]
    )
    # they begin at frames 0, 133, 266 and 400 and overlap around 166, 299 and 433
    assert "".join(w.text for w in found) == "A" * 17 + "B" * 13 + "C" * 14 + "D" * 16


@pytest.mark.parametrize("shift", [-0.15, 0.0, 0.04, 0.15])
@pytest.mark.parametrize("begin", [4.0, 4.1, 4.25, 4.4, 4.5])
def test_words_on_which_both_agree_are_there_once(begin, shift):
    said = "ONE ONE TWO ONE THREE THREE THREE FOUR ONE ONE TWO FIVE SIX SIX ONE ONE"
    before, after = words(said)[:13], words(said, shift=shift)[8:]
    found = joined(before, after, begin, 6.4)
    assert text(found) == said
    assert found == sorted(found, key=lambda word: word.start)


def test_a_word_that_a_window_cuts_is_taken_from_the_other():
    # the overlap is 2 s to 5 s
    before = words("A B C D E F G H I FO")
    after = words("UR E F G H I FOUR K L", 1.5)
    assert text(joined(before, after, 2.0, 5.0)) == "A B C D E F G H I FOUR K L"


def test_where_windows_differ_one_of_them_is_believed():
    before, after = words("A B C D X F G"), words("C D Y F G H", 1.0)
    # "X" and "Y" lie on both sides of the middle
    after[2] = Word("Y", 2.2, 2.5)
    assert text(joined(before, after, 1.0, 3.3)) in (
        "A B C D X F G H",
        "A B C D Y F G H",
    )


def test_without_agreement_the_middle_divides():
    before, after = words("A B C D E"), words("V W X Y Z", 1.0)
    # the middle is 1.75 s: C at 1.15, D at 1.65, E at 2.15; V at 1.15, W at 1.65
    assert text(joined(before, after, 1.0, 2.5)) == "A B C D X Y Z"


def test_the_agreement_nearest_to_the_middle_divides():
    # they agree on A, D and E; the middle is that of D
    before, after = words("A B X D E"), words("A Y C D E")
    assert text(joined(before, after, 0.0, 3.3)) == "A B X D E"


def test_a_word_on_the_middle_is_there_once():
    before, after = [Word("C", 1.5, 2.0)], [Word("X", 1.5, 2.0)]
    assert text(joined(before, after, 1.0, 2.5)) == "X"


@pytest.mark.parametrize(
    ("start", "before", "after", "expected"),
    [
        pytest.param(1.7, "A B C D E", "A V W X Y", "A B C D Y", id="before"),
        pytest.param(3.2, "A B C D E", "V W X Y E", "A W X Y E", id="after"),
    ],
)
def test_agreement_outside_of_the_overlap_does_not_count(
    start, before, after, expected
):
    # the overlap is 2 s to 5 s; A of the one and E of the other lie beyond
    made = joined(words(before, start), words(after, start), 2.0, 5.0)
    assert text(made) == expected


@pytest.mark.parametrize(
    ("before", "after"), [("", "A B"), ("A B", ""), ("", ""), ("A B", "C D")]
)
def test_silence_on_a_side_loses_nothing_of_the_other(before, after):
    made = joined(words(before), words(after, 10.0), 5.0, 6.0)
    assert text(made) == f"{before} {after}".strip()


def test_agreement_needs_the_same_word_at_about_the_same_time():
    assert list(agreed(words("A B C"), words("A X C"))) == [(0, 0), (2, 2)]
    assert list(agreed(words("A B C"), words("A B C", shift=0.22))) == []
    assert list(agreed(words("A B"), words("A B", shift=0.15))) == [(0, 0), (1, 1)]
    assert list(agreed(words("A A A"), words("A A", 0.5))) == [(1, 0), (2, 1)]


def test_a_word_agrees_with_the_nearest_of_its_kind_alone():
    # said twice in 0.15 s; the other window has heard it once
    twice = [Word("A", 1.0, 1.1), Word("A", 1.15, 1.25)]
    assert list(agreed(twice, [Word("A", 1.1, 1.2)])) == [(1, 0)]
    assert list(agreed([Word("A", 1.1, 1.2)], twice)) == [(0, 1)]


def test_nearest():
    times = [1.0, 2.0, 2.0, 4.0]
    assert [nearest(t, times) for t in (0, 1.4, 1.6, 3.5, 9)] == [0, 0, 1, 3, 3]
    assert nearest(0, [1.0]) == 0


def certain(path, vocabulary=4):
    rows = torch.full((len(path), vocabulary), 0.01)
    rows[range(len(path)), path] = 1.0
    return rows.log_softmax(-1)[None]


def test_tokens_are_aligned_to_where_ctc_has_them():
    log_probs = certain([0, 1, 0, 2, 2, 0, 2])
    assert aligned(log_probs, [1, 2, 2], 0) == [
        Token(1, 1, 2),
        Token(2, 3, 5),
        Token(2, 6, 7),
    ]


def test_marks_of_begin_and_end_and_blanks_are_no_tokens():
    ctc = SimpleNamespace(log_softmax=lambda xs: xs)
    recogniser = SimpleNamespace(espnet=SimpleNamespace(ctc=ctc, blank_id=0))
    best = SimpleNamespace(yseq=torch.tensor([3, 1, 0, 2, 3]))
    decoder = Joint(recogniser, lambda x: [best], 2.0, 0.5)
    heard = decoder.decode(certain([0, 1, 0, 2, 0])[0])
    assert heard == [Token(1, 1, 2), Token(2, 3, 4)]


def test_tokens_that_fill_all_frames_are_aligned():
    assert aligned(certain([1, 0, 1]), [1, 1], 0) == [Token(1, 0, 1), Token(1, 2, 3)]


@pytest.mark.parametrize("ids", [[1, 2, 3], [1, 1], [1, 2, 2]])
def test_more_tokens_than_fit_are_spread_evenly(ids):
    found = aligned(certain([0, 1]), ids, 0)
    assert [token.id for token in found] == ids
    assert found[0].begin == 0 and found[-1].end == 2


def test_no_tokens_are_aligned_to_nothing():
    assert aligned(certain([0, 1]), [], 0) == []


def test_text_without_blanks_is_not_there_twice():
    # two windows of the same nine characters a second apart, of which eight overlap
    said = Spelling("bpe", ["<blank>", "▁", *"天地玄黄宇宙洪荒日月"])
    heard = [Token(id, 10 * id, 10 * id + 1) for id in range(2, 12)]
    before = said.words([Token(1, 0, 1), *heard[:-1]], Clock(0.0, 0.1), 99.0)
    after = said.words([Token(1, 20, 21), *heard[1:]], Clock(0.0, 0.1), 99.0)
    words = joined(before, after, 2.5, 11.0)
    assert text_of(words, said.blank) == "天地玄黄宇宙洪荒日月"
