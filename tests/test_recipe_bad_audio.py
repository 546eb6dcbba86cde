"""Each bad audio file is named by the stage that reads it, and leaves nothing."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from test_recipe_audio import FS, source, tone  # noqa: F401

from espnet_srupp.recipe import audio, datadir
from espnet_srupp.recipe.errors import RecipeError


def truncated_wav(path):
    data = Path("wav/s0-u1.wav").read_bytes()
    path.write_bytes(data[: len(data) // 2])


def truncated_flac(path):
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, FS), FS)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def truncated_mp3(path):
    soundfile.write(path, tone(1), FS, format="MP3")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def corrupt_flac(path):
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, FS), FS)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 500] = bytes(500)
    path.write_bytes(data)


def flac_of(length, rate=FS):
    """Writes a FLAC file of a second, whose header tells another number of samples."""

    def write(path):
        soundfile.write(path, tone(1, rate=rate), rate)
        data = bytearray(path.read_bytes())
        # the last 36 bits of these 8 bytes
        fields = int.from_bytes(data[18:26], "big") >> 36 << 36
        data[18:26] = (fields | length).to_bytes(8, "big")
        path.write_bytes(data)

    return write


BAD = {
    "missing": ("wav", lambda path: None, "is missing"),
    "no audio": ("wav", lambda path: path.write_text("<html>"), "is corrupt"),
    "no bytes": ("wav", lambda path: path.touch(), "is corrupt"),
    "folder": ("wav", lambda path: path.mkdir(), "is no file"),
    "pipe": ("wav", os.mkfifo, "is no file"),
    "too loud for audio": (
        "wav",
        lambda p: soundfile.write(p, tone(1) * 1e20, FS, subtype="FLOAT"),
        ".*a million times louder",
    ),
    "truncated wav": ("wav", truncated_wav, "is truncated"),
    "truncated flac": ("flac", truncated_flac, "is (truncated|corrupt)"),
    # of which libsndfile says nothing
    "truncated mp3": ("flac", truncated_mp3, "is truncated"),
    "corrupt flac": ("flac", corrupt_flac, "is (truncated|corrupt)"),
    "flac from a pipe": ("flac", flac_of(0), "does not say how long it is"),
    "flac of days": ("flac", flac_of(1 << 35), "is (truncated|corrupt)"),
    "no samples": (
        "wav",
        lambda p: soundfile.write(p, tone(0), FS),
        "holds no samples",
    ),
    "stereo": (
        "wav",
        lambda path: soundfile.write(path, np.zeros((FS, 2)), FS),
        "has 2 channels",
    ),
    "rate": (
        "wav",
        lambda path: soundfile.write(path, tone(1, rate=8000), 8000),
        "is sampled at 8000 Hz, not at 16000 Hz: give --resample true, or --fs 8000",
    ),
    "not a number": (
        "wav",
        lambda path: soundfile.write(path, np.full(FS, np.nan), FS, subtype="FLOAT"),
        "holds samples that are not numbers",
    ),
}


@pytest.mark.parametrize("suffix, spoil, message", BAD.values(), ids=BAD)
def test_bad_audio_is_named_and_leaves_nothing(source, suffix, spoil, message):  # noqa: F811
    data = datadir.read(source)
    data.wav["s0-u1"] = f"wav/bad.{suffix}"
    spoil(Path(data.wav["s0-u1"]))
    datadir.write(data, source)
    with pytest.raises(RecipeError, match=rf"wav/bad.* \(utterance s0-u1\) {message}"):
        audio.format_audio(source, Path("dump/set"), FS, suffix, nj=2)
    assert os.listdir("dump") == []
