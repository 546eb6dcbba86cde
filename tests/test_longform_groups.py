"""Utterances are grouped by what their ids say, and ordered as they were spoken."""

import pytest

from espnet_srupp.longform.groups import groups, recordings
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError


def unsegmented(speakers):
    """Utterances by id, each with its speaker."""
    return DataDir(
        dict.fromkeys(speakers, "x.wav"), dict.fromkeys(speakers, "X"), speakers
    )


def segmented(segments, speakers):
    wav = {recording: "x.wav" for recording, _, _ in segments.values()}
    return DataDir(wav, dict.fromkeys(segments, "X"), speakers, segments)


def found(data, pattern=None):
    return {g.name: (g.speaker, g.utterances) for g in groups(data, pattern, [])}


@pytest.mark.parametrize(
    ("speakers", "name", "speaker"),
    [
        pytest.param(
            {"198-209-0000": "198-209", "198-209-0001": "198-209"},
            "198-209",
            "198-209",
            id="LibriSpeech",
        ),
        pytest.param(
            {"198-209-0000": "198", "198-209-0001": "198"},
            "198-209",
            "198",
            id="LibriSpeech-by-reader",
        ),
        pytest.param(
            {"BAC009S0002W0122": "S0002", "BAC009S0002W0123": "S0002"},
            "S0002-BAC009S0002",
            "S0002",
            id="AISHELL-1",
        ),
        pytest.param(
            {
                "AaronHuey_2010X-0001234-0002345": "AaronHuey_2010X",
                "AaronHuey_2010X-0002345-0003456": "AaronHuey_2010X",
            },
            "AaronHuey_2010X",
            "AaronHuey_2010X",
            id="TEDLIUM3",
        ),
        pytest.param(
            {"fash-an251-b": "fash", "fash-cen1-b": "fash"}, "fash", "fash", id="AN4"
        ),
        pytest.param(
            {"sp0.9-fash-an251-b": "sp0.9-fash", "sp0.9-fash-an252-b": "sp0.9-fash"},
            "sp0.9-fash",
            "sp0.9-fash",
            id="perturbed",
        ),
        pytest.param(
            {"sp2-fash-an251-b": "sp2-fash", "sp2-fash-an252-b": "sp2-fash"},
            "sp2-fash",
            "sp2-fash",
            id="twice as fast",
        ),
    ],
)
def test_ids_tell_the_group(speakers, name, speaker):
    assert found(unsegmented(speakers)) == {name: (speaker, list(speakers))}


def test_chapters_and_speeds_are_apart():
    data = unsegmented(
        {
            "19-198-0000": "19",
            "19-199-0000": "19",
            "26-199-0000": "26",
            "sp1.1-19-198-0000": "sp1.1-19",
        }
    )
    assert list(found(data)) == ["19-198", "19-199", "26-199", "sp1.1-19-198"]


def test_numbers_order_not_letters():
    ids = ["fash-an1000-b", "fash-an99-b", "fash-an100-b", "fash-cen8-b"]
    data = unsegmented(dict.fromkeys(ids, "fash"))
    assert found(data)["fash"][1] == [
        "fash-an99-b",
        "fash-an100-b",
        "fash-an1000-b",
        "fash-cen8-b",
    ]


SEGMENTS = {"a": ("talk", 5.0, 6.0), "b": ("talk", 1.0, 2.0), "c": ("other", 0.0, 1.0)}


def test_segments_tell_group_and_order():
    data = segmented(SEGMENTS, {"a": "talk", "b": "talk", "c": "other"})
    assert found(data) == {"talk": ("talk", ["b", "a"]), "other": ("other", ["c"])}


def test_a_pattern_comes_before_segments():
    data = segmented(SEGMENTS, {"a": "talk", "b": "talk", "c": "other"})
    assert found(data, "([abc])") == {
        "talk-a": ("talk", ["a"]),
        "talk-b": ("talk", ["b"]),
        "other-c": ("other", ["c"]),
    }


def test_across_recordings_each_is_over_before_the_next_one_begins():
    segments = {**SEGMENTS, "c": ("other", 3.0, 4.0)}
    data = segmented(segments, dict.fromkeys(segments, "ann"))
    assert found(data, "()") == {"ann-all": ("ann", ["c", "b", "a"])}


def test_two_speakers_of_a_recording_are_apart_unless_it_is_whole():
    data = segmented(SEGMENTS, {"a": "ann", "b": "bob", "c": "bob"})
    assert found(data) == {
        "ann-talk": ("ann", ["a"]),
        "bob-talk": ("bob", ["b"]),
        "bob-other": ("bob", ["c"]),
    }
    assert list(found(data)) == ["ann-talk", "bob-other", "bob-talk"]
    whole = {g.name: (g.speaker, g.utterances) for g in recordings(data)}
    assert whole == {"talk": ("talk", ["b", "a"]), "bob-other": ("bob", ["c"])}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param(
            r"(\w+)_\d+$", {"a_x": ("a", ["a_x_2", "a_x_10"]), "b_x": ("b", ["b_x_1"])}
        ),
        pytest.param("()", {"all": ("", ["a_x_2", "a_x_10", "b_x_1"])}),
        pytest.param("_(x)_", {"x": ("x", ["a_x_2", "a_x_10", "b_x_1"])}),
    ],
    ids=["by-id", "all-in-one", "across-speakers"],
)
def test_a_pattern_alone_decides(pattern, expected):
    data = unsegmented({"a_x_10": "a", "a_x_2": "a", "b_x_1": "b"})
    assert found(data, pattern) == expected


@pytest.mark.parametrize(
    ("speakers", "pattern", "sentence"),
    [
        pytest.param(
            {"odd_1": "odd", "odd_2": "odd"},
            None,
            "^odd_1, odd_2 are named as in none of LibriSpeech, TEDLIUM3, AISHELL-1, "
            "AN4: give --group",
            id="unknown",
        ),
        pytest.param(
            {"1-20-00000": "1"}, None, "^1-20-00000 is named as in none", id="longer"
        ),
        pytest.param({"u": "s"}, "(x)?u", "^u is not matched by", id="no-part"),
        pytest.param(
            {"u": "s"}, "(x)", r"^u is not matched by --group '\(x\)'", id="no"
        ),
        pytest.param({"u": "s"}, "(x", "is not a regular expression", id="broken"),
        pytest.param({"u": "s"}, "u", "has no group", id="no-group"),
    ],
)
def test_wrong_ids_are_named(speakers, pattern, sentence):
    with pytest.raises(RecipeError, match=sentence):
        groups(unsegmented(speakers), pattern, [])


def test_groups_of_the_same_name_are_told_apart_by_their_speakers():
    segments = dict.fromkeys(["t", "u", "v"], ("s10_call", 0.0, 1.0))
    data = segmented(segments, {"t": "s1", "u": "s10", "v": "ann"})
    assert found(data) == {
        "s10_call": ("s1", ["t"]),
        "s10-s10_call": ("s10", ["u"]),
        "ann-s10_call": ("ann", ["v"]),
    }
    segments = {"t": ("a-b-a", 0.0, 1.0), "u": ("a-b", 0.0, 1.0), "v": ("a", 0.0, 1.0)}
    data = segmented(segments, {"t": "a-b-a", "u": "a", "v": "a-b"})
    assert found(data) == {
        "a-b-a": ("a-b-a", ["t"]),
        "a-b": ("a", ["u"]),
        "a-b-a-b": ("a-b", ["v"]),
    }
    segments = {"t": ("b-b-x", 0.0, 1.0), "u": ("b-x", 0.0, 1.0)}
    segments["v"] = segments["w"] = ("x", 0.0, 1.0)
    data = segmented(segments, {"t": "b", "u": "b", "v": "b", "w": "c"})
    assert sorted(sum((g.utterances for g in groups(data, None, [])), [])) == [*"tuvw"]


def test_a_speaker_called_sp1_is_no_speed():
    data = unsegmented({"sp1-1": "sp1", "sp1-2": "sp1", "sp2-1": "sp2"})
    apart = {"sp1": ("sp1", ["sp1-1", "sp1-2"]), "sp2": ("sp2", ["sp2-1"])}
    assert found(data, r"^(sp\d)-") == apart
    assert found(data, "^(.*)-") == apart


def test_a_pattern_does_not_see_the_prefix_of_speed_perturbation():
    ids = ["sp0.9-a_1", "a_1", "sp0.9-a_2", "a_2"]
    data = unsegmented({u: u.partition("_")[0] for u in ids})
    assert found(data, r"^(\w)_") == {
        "a": ("a", ["a_1", "a_2"]),
        "sp0.9-a": ("sp0.9-a", ["sp0.9-a_1", "sp0.9-a_2"]),
    }


def test_all_that_is_joined_at_a_speed_is_no_speakers():
    ids = ["a_1", "b_1", "sp0.9-a_1", "sp0.9-b_1"]
    data = unsegmented({u: u.partition("_")[0] for u in ids})
    assert found(data, "()") == {
        "all": ("", ["a_1", "b_1"]),
        "sp0.9-all": ("", ["sp0.9-a_1", "sp0.9-b_1"]),
    }
