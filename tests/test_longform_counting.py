"""Errors and repetitions are counted as by hand."""

import pytest

from espnet_srupp.longform.counting import Pair, Tally, repeated, tally
from espnet_srupp.recipe.counts import Counts


@pytest.mark.parametrize(
    ("reference", "hypothesis", "n", "expected"),
    [
        # ABC three times, BCA and CAB twice each
        pytest.param("ABC", "ABCABCABC", 3, 2 + 1 + 1, id="loop"),
        pytest.param("ABCABCABC", "ABCABCABC", 3, 0, id="said-so"),
        pytest.param("ABCABC", "ABCABCABC", 3, 1 + 1 + 1, id="once-too-often"),
        pytest.param("ABC", "XYZ", 3, 0, id="wrong-but-once"),
        pytest.param("ABC", "XYZXYZ", 3, 1, id="wrong-and-again"),
        pytest.param("ABC", "AB", 3, 0, id="too-short"),
        pytest.param("ABC", "", 3, 0, id="empty"),
        pytest.param("A", "AAA", 1, 2, id="single"),
    ],
)
def test_repetitions_beyond_the_reference(reference, hypothesis, n, expected):
    assert repeated(list(reference), list(hypothesis), n) == expected


def test_words_and_characters_of_an_utterance():
    # words: FIVE substituted, SIX deleted; characters: X for V, then _SIX deleted
    found = tally(Pair("ONE FIVE SIX", "one fixe", 2, case=False))
    assert found == {
        "wer": Tally(Counts(1, 3, 1, 1, 1, 0, 1), 1, 0),
        "cer": Tally(Counts(1, 12, 7, 1, 4, 0, 1), 7, 0),
    }


def test_case_counts_on_request():
    assert tally(Pair("ONE", "one", 3, case=True))["wer"].counts.substituted == 1
    assert tally(Pair("ONE", "one", 3, case=False))["wer"].counts.substituted == 0


def test_an_empty_hypothesis_is_all_deletions():
    counts = tally(Pair("A B C", "", 3, case=False))["wer"].counts
    assert counts == Counts(1, 3, 0, 0, 3, 0, 1)


def test_repetitions_of_words_differing_in_case_only():
    pair = Pair("A B", "A b a B", 2, case=False)
    assert tally(pair)["wer"].repeated == 1
    assert tally(Pair("A B", "A b a B", 2, case=True))["wer"].repeated == 0


def test_tallies_add_up():
    one = Tally(Counts(1, 4, 2, 1, 1, 0, 1), 3, 1)
    assert sum([one, one], Tally()) == Tally(Counts(2, 8, 4, 2, 2, 0, 2), 6, 2)
