"""Audio is read whole and unchanged, and written as 16 bits.

What is wrong with a file is tested where a stage names it, in test_recipe_bad_audio.py.
"""

import math

import numpy as np
import pytest
import soundfile

from espnet_srupp.recipe import sound
from espnet_srupp.recipe.errors import DataError

FS = 16000


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_16_bits_come_through_unchanged(tmp_path, suffix):
    pcm = np.arange(-32768, 32768).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", pcm, FS)
    samples, rate = sound.load(str(tmp_path / "a.wav"), "a")
    sound.save(tmp_path / f"b.{suffix}", samples, rate)
    again, rate = soundfile.read(tmp_path / f"b.{suffix}", dtype="int16")
    np.testing.assert_array_equal(again, pcm)
    assert rate == FS
    assert soundfile.info(tmp_path / f"b.{suffix}").subtype == "PCM_16"


def test_samples_without_a_header_are_refused(tmp_path):
    (tmp_path / "a.RAW").write_bytes(bytes(100))
    with pytest.raises(DataError, match="a.RAW .* has no header: write it as WAV"):
        sound.load(str(tmp_path / "a.RAW"), "a")


def test_a_name_that_is_too_long_is_told(tmp_path):
    with pytest.raises(DataError, match="is missing or out of reach"):
        sound.load(str(tmp_path / ("x" * 300)), "a")


def test_a_relative_path_is_told_with_the_folder_that_it_begins_at(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"x.wav .*out of reach from {tmp_path}: "):
        sound.load("x.wav", "a")


@pytest.mark.parametrize("sample", [1e6, -1e6, math.inf, -math.inf, math.nan])
def test_a_sample_that_is_none_of_audio_is_refused(tmp_path, sample):
    soundfile.write(tmp_path / "x.wav", np.array([0.0, sample, 0.0]), FS, "FLOAT")
    with pytest.raises(DataError, match="not numbers, or a million times louder"):
        sound.load(str(tmp_path / "x.wav"), "x")


@pytest.mark.parametrize("sample", [32768, -32768])
def test_floats_on_the_scale_of_16_bits_are_read(tmp_path, sample):
    soundfile.write(tmp_path / "x.wav", np.array([0.0, sample, 0.0]), FS, "FLOAT")
    assert sound.load(str(tmp_path / "x.wav"), "x")[0].tolist() == [0, sample, 0]


def test_samples_out_of_range_are_clipped(tmp_path):
    sound.save(tmp_path / "x.wav", np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), FS)
    samples, _ = soundfile.read(tmp_path / "x.wav", dtype="int16")
    assert samples.tolist() == [-32768, -32768, 0, 32767, 32767]


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x00\xf0\xff\x7f"])
def test_a_wav_of_unknown_length_is_read_to_its_end(tmp_path, length):
    soundfile.write(tmp_path / "x.wav", np.full(FS, 0.5), FS)
    data = bytearray((tmp_path / "x.wav").read_bytes())
    position = data.index(b"data") + 4
    data[position : position + 4] = length
    (tmp_path / "x.wav").write_bytes(data)
    samples, _ = sound.load(str(tmp_path / "x.wav"), "x")
    assert len(samples) == FS


def test_chunks_beside_the_samples_are_no_truncation(tmp_path):
    soundfile.write(tmp_path / "x.wav", np.full(FS, 0.5), FS)
    data = (tmp_path / "x.wav").read_bytes()
    note = b"note" + (3).to_bytes(4, "little") + b"abc\0"
    position = data.index(b"data")
    data = data[:position] + note + data[position:] + note
    (tmp_path / "x.wav").write_bytes(data)
    samples, _ = sound.load(str(tmp_path / "x.wav"), "x")
    assert len(samples) == FS


def test_samples_between_two_numbers_become_the_nearer_one():
    between = np.array([-1.6, -0.6, -0.4, 0.4, 0.6, 1.6]) / 32768
    assert sound.pcm(between).tolist() == [-2, -1, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("form", "subtype"), [("MP3", None), ("OGG", "VORBIS"), ("OGG", "OPUS")]
)
def test_files_one_after_the_other_are_not_taken_for_the_first(tmp_path, form, subtype):
    path, content = tmp_path / "x", b""
    for seconds in (3, 2):
        noise = np.random.default_rng(0).uniform(-0.5, 0.5, FS * seconds)
        soundfile.write(path, noise, FS, subtype, format=form)
        assert len(sound.load(str(path), "x")[0]) == FS * seconds
        content += path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(DataError, match="x .* is several files one after the other"):
        sound.load(str(path), "x")
