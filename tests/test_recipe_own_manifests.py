"""A corpus of one's own that lhotse has prepared."""

import gzip
import json
from pathlib import Path

import pytest
from data.own_corpus import record
from lhotse import (
    CutSet,
    MonoCut,
    Recording,
    RecordingSet,
    SupervisionSegment,
    SupervisionSet,
)

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.corpora import own
from espnet_srupp.recipe.errors import RecipeError


def lhotse(folder, recordings, supervisions, name="train"):
    RecordingSet.from_recordings(recordings).to_file(
        folder / f"mine_recordings_{name}.jsonl.gz"
    )
    SupervisionSet.from_segments(supervisions).to_file(
        folder / f"mine_supervisions_{name}.jsonl.gz"
    )


def said(key, recording, start=0.0, duration=1.0, text="HELLO", **more):
    return SupervisionSegment(key, recording, start, duration, text=text, **more)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of a recipe, beside which the corpus lies in `corpus`."""
    (tmp_path / "recipe").mkdir()
    monkeypatch.chdir(tmp_path / "recipe")
    return tmp_path / "corpus"


def test_recordings_of_lhotse_that_are_utterances_need_no_segments(here):
    record(here / "wav" / "r.wav")
    recording = Recording.from_file(here / "wav" / "r.wav", recording_id="r")
    recording.sources[0].source = "wav/r.wav"
    lhotse(here, [recording], [said("u", "r", speaker="anna", text=" A\tB ")])
    own.prepare(Path("data"), here, "train")
    found = datadir.read(Path("data/train"))
    assert found.wav == {"u": str(here / "wav" / "r.wav")}
    assert (found.text, found.utt2spk) == ({"u": "A B"}, {"u": "anna"})
    assert found.segments is None


def test_parts_of_a_recording_are_segments_and_what_has_no_text_is_left_out(
    here, capsys
):
    record(here / "r.wav", 3)
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    parts = [said("u1", "r"), said("u2", "r", 1.5, text=None), said("u3", "r", 2.0)]
    lhotse(here, [recording], parts)
    own.prepare(Path("data"), here, "train")
    found = datadir.read(Path("data/train"))
    assert found.segments == {"u1": ("r", 0.0, 1.0), "u3": ("r", 2.0, 3.0)}
    assert found.utt2spk == {"u1": "u1", "u3": "u3"}
    assert "1 of 3 of" in capsys.readouterr().out


def test_a_part_of_a_recording_that_is_there_alone_is_a_segment(here):
    record(here / "r.wav", 3)
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording], [said("u", "r", duration=2.0)])
    own.prepare(Path("data"), here, "train")
    assert datadir.read(Path("data/train")).segments == {"u": ("r", 0.0, 2.0)}


def test_what_is_no_plain_file_for_lhotse_is_refused(here):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording.perturb_speed(0.9)], [said("u", "r_sp0.9")])
    with pytest.raises(RecipeError, match=r"r_sp0\.9 is not one file as it lies"):
        own.prepare(Path("data"), here, "train")


@pytest.mark.parametrize(
    ("recordings", "problem"),
    [
        (b"\x1f\x8b\x08\x00", "cannot read"),
        (None, "u lies in r, which is not in"),
    ],
    ids=["cut", "another"],
)
def test_manifests_that_are_damaged_or_of_each_other_are_refused(
    recordings, problem, here
):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="other")
    lhotse(here, [recording], [said("u", "r")])
    if recordings is not None:
        (here / "mine_recordings_train.jsonl.gz").write_bytes(recordings)
    with pytest.raises(RecipeError, match=problem):
        own.prepare(Path("data"), here, "train")


@pytest.mark.parametrize("twice", ["recordings", "supervisions"])
def test_an_id_that_a_manifest_has_twice_is_refused(twice, here):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    recordings, supervisions = [recording], [said("u", "r")]
    lhotse(here, recordings, supervisions)
    path = here / f"mine_{twice}_train.jsonl.gz"
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(RecipeError, match=rf"{path.name}: [ru] is there 2 times"):
        own.prepare(Path("data"), here, "train")


def test_speakers_of_lhotse_may_hold_blanks_and_slashes(here):
    record(here / "r.wav", 2)
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    names = {"u1": "N/A", "u2": "John Smith"}
    parts = [said(u, "r", speaker=name) for u, name in names.items()]
    lhotse(here, [recording], parts)
    own.prepare(Path("data"), here, "train")
    found = datadir.read(Path("data/train"))
    assert found.utt2spk == {"u1": "N_A", "u2": "John_Smith"}


def test_ids_of_lhotse_may_hold_blanks_and_slashes(here):
    record(here / "r.wav", 2)
    recording = Recording.from_file(here / "r.wav", recording_id="2024/my talk")
    parts = [said("a / b", recording.id), said("c", recording.id, 1.0)]
    lhotse(here, [recording], parts)
    own.prepare(Path("data"), here, "train")
    assert datadir.read(Path("data/train")).segments == {
        "a_b": ("2024_my_talk", 0.0, 1.0),
        "c": ("2024_my_talk", 1.0, 2.0),
    }


def test_ids_that_are_then_the_same_are_refused(here):
    record(here / "r.wav", 2)
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording], [said("a b", "r"), said("a/b", "r", 1.0)])
    with pytest.raises(RecipeError, match="a_b is there 2 times"):
        own.prepare(Path("data"), here, "train")


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ({"id": "a" * 201}, "id"),
        ({"text": "A \7 B"}, "control character"),
        ({"text": "\ud83d"}, "control character"),
        ({"start": -0.01}, "segment"),
        ({"duration": 0}, "segment"),
    ],
)
def test_what_is_wrong_with_an_utterance_is_left_to_later_stages(bad, kind, here):
    record(here / "r.wav", 2)
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording], [said("u", "r", 1.0)])
    first = {"id": "x", "recording_id": "r", "start": 0, "duration": 1, "text": "A"}
    add(here, {"channel": 0, **first, **bad})
    own.prepare(Path("data"), here, "train")
    faults = {}
    assert [*datadir.read(Path("data/train"), faults).text] == ["u"]
    assert {fault.kind for fault in faults.values()} == {kind}


def add(folder, supervision):
    """A line that lhotse would not write, but reads."""
    with gzip.open(folder / "mine_supervisions_train.jsonl.gz", "at") as file:
        file.write(json.dumps(supervision) + "\n")


@pytest.mark.parametrize("bad", [{"start": None}, {"duration": "x"}])
def test_a_time_that_is_no_number_is_one_sentence(bad, here):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording], [said("u", "r")])
    good = {"id": "x", "recording_id": "r", "channel": 0, "text": "A"}
    add(here, {**good, "start": 0, "duration": 1, **bad})
    with pytest.raises(RecipeError, match="lhotse cannot read"):
        own.prepare(Path("data"), here, "train")


def test_a_text_of_several_lines_becomes_one(here):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording], [said("u", "r", text="A\nB\u2028 C\u0085D")])
    own.prepare(Path("data"), here, "train")
    assert datadir.read(Path("data/train")).text == {"u": "A B C D"}


def test_ids_and_texts_may_be_numbers(here):
    record(here / "r.wav", 2)
    recording = Recording.from_file(here / "r.wav", recording_id="7")
    lhotse(here, [recording], [said("u", "7", 1.0)])
    digits = {"id": 3, "recording_id": 7, "start": 0.0, "duration": 1.0, "channel": 0}
    add(here, {**digits, "text": 0, "speaker": 0})
    own.prepare(Path("data"), here, "train")
    found = datadir.read(Path("data/train"))
    assert (found.text["3"], found.utt2spk["3"]) == ("0", "0")
    assert found.segments["3"] == ("7", 0.0, 1.0)


def test_a_recording_that_nothing_is_said_in_may_be_anything(here):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording, recording.perturb_speed(0.9)], [said("u", "r")])
    own.prepare(Path("data"), here, "train")
    assert [*datadir.read(Path("data/train")).wav] == ["u"]


def test_a_manifest_of_another_kind_is_refused(here):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording], [said("u", "r")])
    cut = MonoCut("c", 0, 1, 0, recording=recording)
    CutSet.from_cuts([cut]).to_file(here / "mine_recordings_train.jsonl.gz")
    with pytest.raises(RecipeError, match=r"mine_rec.*cuts, say; prepare both again"):
        own.prepare(Path("data"), here, "train")


def test_manifests_without_any_text_are_refused(here):
    record(here / "r.wav")
    recording = Recording.from_file(here / "r.wav", recording_id="r")
    lhotse(here, [recording], [said("u", "r", text="")])
    with pytest.raises(RecipeError, match=r"jsonl\.gz has no text: give one"):
        own.prepare(Path("data"), here, "train")
