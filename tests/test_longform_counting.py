"""Errors and repetitions are counted as by hand."""

import tracemalloc

import numpy as np
import pytest

from espnet_srupp.longform.counting import Pair, Tally, looped, repeated, tally
from espnet_srupp.recipe.counts import Counts


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        pytest.param("ABC", "ABCABCABC", 6, id="loop"),
        pytest.param("ABCABCABC", "ABCABCABC", 0, id="said-so"),
        pytest.param("ABCABC", "ABCABCABC", 3, id="once-too-often"),
        pytest.param("ABC", "XYZ", 0, id="wrong-but-once"),
        pytest.param("ABC", "XYZXYZ", 3, id="wrong-and-again"),
        pytest.param("ABC", "ABCDEFGABCDEFG", 7, id="long"),
        pytest.param("ABC", "AXBCAYBC", 0, id="broken-off"),
        pytest.param("ABCDEFXBC", "ABCDEFABC", 0, id="again-but-later"),
        pytest.param("ABC", "AB", 0, id="too-short"),
        pytest.param("ABC", "", 0, id="empty"),
        pytest.param("A", "AAA", 0, id="emphasis"),
        pytest.param("A", "AAAA", 3, id="single"),
        pytest.param("", "AAAABABAB", 3 + 4, id="two-loops"),
    ],
)
def test_loops_beyond_the_reference(reference, hypothesis, expected):
    assert repeated(list(reference), list(hypothesis)) == expected


def test_chance_makes_no_loops():
    random = np.random.default_rng(0)
    words = [f"{n}" for n in random.zipf(1.3, 20000)]
    wrong = [word if random.random() > 0.1 else "x" for word in words]
    assert repeated(words, wrong) < 20


def test_words_and_characters_of_an_utterance():
    # words: FIVE substituted, SIX deleted; characters: X for V, then _SIX deleted
    found = tally(Pair("ONE FIVE SIX", "one fixe", case=False))
    assert found == {
        "wer": Tally(Counts(1, 3, 1, 1, 1, 0, 1), 0),
        "cer": Tally(Counts(1, 12, 7, 1, 4, 0, 1), 0),
    }


def test_case_counts_on_request():
    assert tally(Pair("ONE", "one", case=True))["wer"].counts.substituted == 1
    assert tally(Pair("ONE", "one", case=False))["wer"].counts.substituted == 0


def test_an_empty_hypothesis_is_all_deletions():
    counts = tally(Pair("A B C", "", case=False))["wer"].counts
    assert counts == Counts(1, 3, 0, 0, 3, 0, 1)


def test_repetitions_of_words_differing_in_case_only():
    texts = "A B C", "A B C a b c"
    assert tally(Pair(*texts, case=False))["wer"].repeated == 3
    assert tally(Pair(*texts, case=True))["wer"].repeated == 0


def test_tallies_add_up():
    one = Tally(Counts(1, 4, 2, 1, 1, 0, 1), 1)
    assert sum([one, one], Tally()) == Tally(Counts(2, 8, 4, 2, 2, 0, 2), 2)


def test_loops_of_many_words_are_found_up_to_a_length():
    for period, found in ((200, 200), (201, 0)):
        said = [f"{n}" for n in range(period)]
        assert repeated(said, said * 2) == found


def test_a_word_however_long_takes_no_memory_for_each_other_word():
    tokens = [*map(str, range(2000)), "la" * 10_000]
    tracemalloc.start()
    try:
        assert looped(tokens) == 0
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()
