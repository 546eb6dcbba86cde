"""Stage 4: what is too short or too long is left out and listed."""

import os
from pathlib import Path

import pytest
from test_recipe_audio import FS, source  # noqa: F401

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.audio import format_audio
from espnet_srupp.recipe.durations import filter_length
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.table import read_table


def test_utterances_are_dropped_as_asr_sh_does_and_listed(source, capsys):  # noqa: F811
    format_audio(source, Path("dump/org/set"), FS, "wav", nj=1)
    # the bounds themselves are out: 1.0 and 1.3 s go, 1.1 and 1.2 s stay
    filter_length(
        Path("dump/org/set"), Path("dump/set"), FS, min_seconds=1.0, max_seconds=1.3
    )
    assert "  2 left out for their length, see" in capsys.readouterr().out
    assert Path("dump/set/dropped").read_text() == "s0-u0 1.000\ns1-u3 1.300\n"
    assert list(datadir.read(Path("dump/set")).text) == ["s0-u1", "s1-u2"]
    samples = Path("dump/set/utt2num_samples").read_text()
    assert samples == "s0-u1 17600\ns1-u2 19200\n"
    hashes = read_table(Path("dump/org/set/utt2hash"))
    kept = {utterance: hashes[utterance] for utterance in ("s0-u1", "s1-u2")}
    assert read_table(Path("dump/set/utt2hash")) == kept
    assert Path("dump/set/feats_type").read_text() == "raw\n"
    assert Path("dump/set/audio_format").read_text() == "wav\n"


def test_seconds_are_counted_at_the_rate_of_the_audio(source):  # noqa: F811
    format_audio(source, Path("dump/org/set"), FS, "wav", nj=1)
    filter_length(Path("dump/org/set"), Path("dump/set"), FS // 2, 2.0, 2.6)
    assert Path("dump/set/dropped").read_text() == "s0-u0 2.000\ns1-u3 2.600\n"


def test_a_filter_that_leaves_nothing_is_refused(source):  # noqa: F811
    format_audio(source, Path("dump/org/set"), FS, "wav", nj=1)
    with pytest.raises(RecipeError, match="no utterance is longer than 5 s.*--min_wav"):
        filter_length(Path("dump/org/set"), Path("dump/set"), FS, 5, 20)
    assert os.listdir("dump") == ["org"]


@pytest.mark.parametrize("change", ["one less", "one more"])
def test_lengths_of_other_utterances_are_refused(source, change):  # noqa: F811
    format_audio(source, Path("dump/org/set"), FS, "wav", nj=1)
    lengths = Path("dump/org/set/utt2num_samples")
    _, *others = text = lengths.read_text().splitlines(keepends=True)
    lengths.write_text("".join(others if change == "one less" else [*text, "z 9\n"]))
    with pytest.raises(RecipeError, match="num_samples lists other.*--stage 3"):
        filter_length(Path("dump/org/set"), Path("dump/set"), FS, 0, 20)
