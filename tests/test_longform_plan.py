"""What goes into each long recording, whose it is and what it is called."""

import math

import numpy as np
import pytest
import soundfile
from data.small_recordings import RATE, write_chapters

from espnet_srupp.longform import plan
from espnet_srupp.longform.__main__ import main
from espnet_srupp.longform.lengths import Span, spans
from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.table import read_table


@pytest.mark.parametrize(
    ("samples", "gap", "expected"),
    [
        (300, 0, ["01", "2", "3", "4"]),
        (301, 0, ["012", "3", "4"]),
        (301, 1, ["01", "23", "4"]),
        (math.inf, 0, ["0123", "4"]),
    ],
    ids=["reached", "just-missed", "gaps-count", "never"],
)
def test_a_recording_ends_once_it_is_long_enough(tmp_path, samples, gap, expected):
    data = datadir.read(write_chapters(tmp_path) / "source")
    recordings = plan.join(data, spans(data, []), None, math.inf, samples, gap, [])
    assert ["".join(u[-1] for u in r.parts) for r in recordings] == expected


@pytest.mark.parametrize("count", [1, 9999, 10_000, 123_456])
def test_ids_sort_as_they_count(count):
    made = plan.names("a", count)
    assert len(set(made)) == count and made == sorted(made)


@pytest.mark.parametrize(
    ("pattern", "made"),
    [
        ("()", {"ann-all-long0001": "ann", "all-long0002": "all-long0002"}),
        ("(t)", {"ann-t-long0001": "ann", "t-long0002": "t"}),
    ],
)
def test_whoever_speaks_alone_in_a_recording_is_its_speaker(pattern, made):
    speakers = {"t1": "ann", "t2": "ann", "t3": "ann", "t4": "bob"}
    data = DataDir(speakers, dict.fromkeys(speakers, "A"), speakers)
    found = dict.fromkeys(speakers, Span("t", "t.wav", 0, 10, RATE, 1, "PCM_16"))
    recordings = plan.join(data, found, pattern, 2, math.inf, 0, [])
    assert {r.name: r.speaker for r in recordings} == made


def test_recordings_of_two_groups_are_not_called_alike():
    speakers = {"a-b-a_0": "a-b", "a-b_1": "a", "x-b_2": "x"}
    data = DataDir(speakers, dict.fromkeys(speakers, "A"), speakers)
    found = dict.fromkeys(speakers, Span("t", "t.wav", 0, 10, RATE, 1, "PCM_16"))
    recordings = plan.join(data, found, r"(\w)_", 1, math.inf, 0, [])
    assert {r.name: [*r.parts] for r in recordings} == {
        "a-b-long0001": ["a-b-a_0"],
        "a-a-b-long0001": ["a-b_1"],
        "x-b-long0002": ["x-b_2"],
    }


@pytest.mark.parametrize("speakers", [("ann", "bob"), ("all", "all")])
def test_a_whole_recording_may_be_called_all(tmp_path, speakers):
    source = tmp_path / "talks"
    source.mkdir()
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, 16_000)
    soundfile.write(tmp_path / "all.wav", samples, 16_000)
    tables = {
        "wav.scp": f"all {tmp_path}/all.wav\n",
        "segments": "a all 0 0.5\nb all 0.5 1\n",
        "text": "a X\nb Y\n",
        "utt2spk": "a {}\nb {}\n".format(*speakers),
    }
    for name, content in tables.items():
        (source / name).write_text(content)
    target = tmp_path / "whole"
    assert main(["join", str(source), str(target), "--whole", "--nj", "1"]) == 0
    made = {"all-long0001": "all-long0001"}
    assert read_table(target / "utt2spk") == made
