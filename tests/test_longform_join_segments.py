"""Segments of recordings are cut and joined, or whole talks taken."""

import numpy as np
import pytest
from data.small_recordings import audio, join, noise, provenance, save

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def talk(tmp_path):
    """A recording of 1 s with three segments, the first one not at its beginning."""
    segments = {
        "talk-2": ("talk", 0.3, 0.4006),
        "talk-3": ("talk", 0.35, 0.9),
        "talk-1": ("talk", 0.1, 0.25),
    }
    wav = {"talk": save(tmp_path / "talk.wav", noise(1000, 0))}
    text = {"talk-1": "A", "talk-2": "B", "talk-3": "C"}
    speakers = dict.fromkeys(text, "talk")
    datadir.write(DataDir(wav, text, speakers, segments), tmp_path / "source")
    return tmp_path


def test_a_whole_talk_goes_from_the_first_segment_to_the_last(talk):
    assert join(talk, "--whole") == 0
    np.testing.assert_array_equal(audio(talk)["talk-long0001"], noise(1000, 0)[100:900])
    assert datadir.read(talk / "target").text == {"talk-long0001": "A B C"}
    starts = [row[1:4] for row in provenance(talk)]
    assert starts == [
        ("talk-1", "0", "150"),
        ("talk-2", "200", "101"),
        ("talk-3", "250", "550"),
    ]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("text", "B", "B\x01"), ("segments", "0.4006", "x"), ("segments", "0.4006", "")],
)
def test_a_whole_talk_that_lost_a_segment_is_left_out(talk, capsys, name, good, bad):
    table = talk / "source" / name
    table.write_text(table.read_text().replace(good, bad))
    assert join(talk, "--whole") == 1
    assert "talk is left out, as a segment of it is" in capsys.readouterr().err
    assert not (talk / "target").exists()


@pytest.mark.parametrize(
    "line", [b"talk-1\xe9 talk 0.25 0.3", b"talk-0 other 0 1\ntalk-0 talk 0.25 0.3"]
)
def test_a_whole_talk_is_left_out_for_a_segment_that_cannot_be_read(talk, line, capsys):
    source = talk / "source"
    save(talk / "other.wav", noise(1000, 1))
    for name, first in (
        ("wav.scp", f"other {talk}/other.wav\n".encode()),
        ("segments", line + b"\n"),
        ("text", b"talk-0 O\n"),
        ("utt2spk", b"talk-0 talk\n"),
    ):
        table = source / name
        table.write_bytes(first + table.read_bytes())
    assert join(talk, "--whole") == 1
    assert "talk is left out, as a segment of it is" in capsys.readouterr().err
    assert not (talk / "target").exists()


def test_a_segment_without_a_recording_is_told_and_the_rest_joined(talk, capsys):
    for name, line in (("segments", ""), ("text", " D"), ("utt2spk", " talk")):
        table = talk / "source" / name
        table.write_text(f"{table.read_text()}talk-4{line}\n")
    assert join(talk, "--whole") == 1
    assert "talk-4 has nothing after it" in capsys.readouterr().err
    assert datadir.read(talk / "target").text == {"talk-long0001": "A B C"}


def test_segments_are_cut_and_joined(talk):
    assert join(talk, "--num-utts", "2") == 0
    whole, made = noise(1000, 0), audio(talk)
    first = np.concatenate([whole[100:250], whole[300:401]])
    np.testing.assert_array_equal(made["talk-long0001"], first)
    np.testing.assert_array_equal(made["talk-long0002"], whole[350:900])


def test_a_segment_beyond_the_end_is_named(talk, capsys):
    save(talk / "talk.wav", noise(400, 0))
    assert join(talk, "--num-utts", "2") == 1
    said = capsys.readouterr().err
    assert "ends at 0.400 s, before the end of the segment talk-3 at 0.9 s" in said


@pytest.mark.parametrize("how", [["--num-utts", "3"], ["--whole"]], ids=" ".join)
def test_a_segment_a_little_beyond_the_end_ends_with_its_recording(talk, how):
    save(talk / "talk.wav", noise(800, 0))
    assert join(talk, *how) == 0
    (made,) = audio(talk).values()
    np.testing.assert_array_equal(made[-450:], noise(800, 0)[350:])
    assert provenance(talk)[-1][1::2] == ("talk-3", "450", "0.450000")


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ("0.8 inf", "talk-3 goes from 0.8 to inf s"),
        ("0.8 1e400", "talk-3 goes from 0.8 to inf s"),
        ("0.8 1e308", "before the end of the segment talk-3 at 1e+308 s"),
        ("0.8 0.8001", "has no sample of talk-3"),
    ],
)
def test_a_segment_of_no_length_is_named_and_the_rest_joined(talk, capsys, times, said):
    path = talk / "source" / "segments"
    *rest, _ = path.read_text().splitlines()
    path.write_text("\n".join([*rest, f"talk-3 talk {times}"]) + "\n")
    assert join(talk, "--num-utts", "2") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    parts = {row[1] for row in provenance(talk)}
    assert parts == {line.split()[0] for line in rest}


def test_a_whole_talk_goes_to_the_end_of_the_segment_that_ends_last(talk):
    path = talk / "source" / "segments"
    # which the last to begin lies in
    path.write_text(path.read_text().replace("0.3 0.4006", "0.3 0.95"))
    assert join(talk, "--whole") == 0
    np.testing.assert_array_equal(audio(talk)["talk-long0001"], noise(1000, 0)[100:950])
