"""Lengths come from headers, segments or stage 3, and bad ones are named."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_srupp.longform import lengths
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.table import write_table


@pytest.fixture
def recorded(tmp_path):
    """Two recordings, of 1.5 s at 1000 Hz and of 2 s at 2000 Hz."""
    paths = {}
    for name, samples, rate in (("a", 1500, 1000), ("b", 4000, 2000)):
        paths[name] = str(tmp_path / f"{name}.wav")
        soundfile.write(paths[name], np.zeros(samples), rate)
    return DataDir(paths, dict.fromkeys(paths, "X"), dict.fromkeys(paths, "s"))


def test_lengths_come_from_headers(recorded, tmp_path):
    assert lengths.seconds(recorded, tmp_path) == {"a": 1.5, "b": 2}


def test_audio_of_several_channels_has_a_length_as_well(recorded, tmp_path):
    # `transcribe` mixes them down, and its results are to be scored
    soundfile.write(recorded.wav["a"], np.zeros((500, 2)), 1000)
    assert lengths.seconds(recorded, tmp_path) == {"a": 0.5, "b": 2}


def test_lengths_come_from_segments(recorded, tmp_path):
    segments = {"u": ("a", 0.25, 1.5), "v": ("b", 0.0, 0.5)}
    data = DataDir(recorded.wav, {"u": "X", "v": "Y"}, {"u": "s", "v": "s"}, segments)
    assert lengths.seconds(data, tmp_path) == {"u": 1.25, "v": 0.5}


def test_lengths_come_from_stage_3_at_the_rate_of_the_audio(recorded, tmp_path):
    write_table({"a": 3000, "b": 500}, tmp_path / "utt2num_samples")
    assert lengths.seconds(recorded, tmp_path) == {"a": 3, "b": 0.5}
    assert lengths.seconds(recorded, tmp_path, 500) == {"a": 6, "b": 1}


def test_without_the_audio_a_rate_may_be_given(recorded, tmp_path):
    write_table({"a": 3000, "b": 500}, tmp_path / "utt2num_samples")
    for path in recorded.wav.values():
        Path(path).unlink()
    with pytest.raises(RecipeError, match=r"a.wav .* is missing .*rate by --fs$"):
        lengths.seconds(recorded, tmp_path)
    assert lengths.seconds(recorded, tmp_path, 500) == {"a": 6, "b": 1}


@pytest.mark.parametrize("more", [{}, {"b": "1.5"}, {"b": "-3"}], ids=str)
def test_lengths_that_stage_3_does_not_tell_are_named(recorded, tmp_path, more):
    write_table({"a": 3000} | more, tmp_path / "utt2num_samples")
    with pytest.raises(RecipeError, match="does not tell the samples of b"):
        lengths.seconds(recorded, tmp_path)


@pytest.mark.parametrize(("bad", "last"), [(10, "u09"), (11, "and 1 more like these")])
def test_many_problems_are_not_all_listed(tmp_path, bad, last):
    names = [f"u{n:02}" for n in range(bad)]
    wav = {name: str(tmp_path / f"{name}.wav") for name in names}
    data = DataDir(wav, dict.fromkeys(names, "X"), dict.fromkeys(names, "s"))
    with pytest.raises(RecipeError) as caught:
        lengths.seconds(data, tmp_path)
    assert len(caught.value.args) == bad
    assert last in caught.value.args[-1]
