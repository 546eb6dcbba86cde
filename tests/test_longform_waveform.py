"""Audio of any form comes as mono blocks at the model's rate, and damage is named."""

import math
import os

import numpy as np
import pytest
import soundfile
import soxr
from test_recipe_bad_audio import flac_of
from test_recipe_mpeg import APE, STEADY, silence

from espnet_srupp.longform import waveform
from espnet_srupp.longform.sources import Source
from espnet_srupp.recipe.errors import RecipeError

RATE = 8000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(waveform, "BLOCK", 1000)


def noise(samples, channels=1):
    random = np.random.default_rng(0)
    pcm = random.integers(-20_000, 20_000, (samples, channels), np.int16)
    return pcm if channels > 1 else pcm[:, 0]


def save(path, samples, rate=RATE):
    soundfile.write(path, samples, rate, "PCM_16")
    return Source(path.stem, str(path))


def read(source, rate=RATE):
    return np.concatenate(list(waveform.blocks(source, rate)))


def test_blocks_are_all_samples(tmp_path):
    samples = noise(4321)
    source = save(tmp_path / "a.flac", samples)
    assert [len(b) for b in waveform.blocks(source, RATE)] == [1000] * 4 + [321]
    np.testing.assert_array_equal(read(source), samples.astype(np.float32) / 32768)
    assert waveform.seconds(source) == 4321 / RATE


def test_channels_are_mixed(tmp_path):
    samples = noise(2500, channels=3)
    source = save(tmp_path / "a.wav", samples)
    expected = samples.astype(np.float32).mean(1) / 32768
    np.testing.assert_allclose(read(source), expected, atol=1e-6)


@pytest.mark.parametrize("rate", [16_000, 44_100, 6000])
def test_rate_is_the_models_and_blocks_do_not_show(tmp_path, rate):
    samples = noise(5000)
    source = save(tmp_path / "a.wav", samples, rate)
    expected = soxr.resample(samples.astype(np.float32) / 32768, rate, RATE)
    made = read(source)
    assert made.dtype == np.float32
    assert abs(len(made) - 5000 * RATE / rate) <= 1
    np.testing.assert_allclose(made, expected[: len(made)], atol=1e-4)


def test_segment_is_cut_at_its_samples(tmp_path):
    samples = noise(5000)
    source = save(tmp_path / "a.wav", samples)
    part = Source("a-1", source.path, 0.1, 0.5)
    expected = samples[800:4000].astype(np.float32) / 32768
    np.testing.assert_array_equal(read(part), expected)
    assert waveform.seconds(part) == 0.4


@pytest.mark.parametrize("form", ["GSM610", "G721_32"])
def test_what_cannot_be_sought_in_is_read_up_to_where_it_begins(tmp_path, form):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(5000), RATE, form)
    whole = read(Source("a", str(path)))
    assert len(whole) >= 5000
    expected, _ = soundfile.read(path, dtype="float32")
    np.testing.assert_array_equal(whole, expected)
    part = Source("a-1", str(path), 0.3, 0.5)
    np.testing.assert_array_equal(read(part), whole[2400:4000])


def test_mp3_without_a_length_is_read_whole_and_no_tag_with_it(tmp_path):
    path = tmp_path / "a.mp3"
    path.write_bytes(b"".join(STEADY) + APE)
    source = Source("a", str(path))
    assert waveform.seconds(source) == 100 * 1152 / 44_100
    assert len(read(source, 44_100)) == 100 * 1152


def truncated_flac(path):
    save(path.with_suffix(".flac"), noise(50_000))
    content = path.with_suffix(".flac").read_bytes()
    path.write_bytes(content[: len(content) // 2])


def damaged_flac(path):
    save(path.with_suffix(".flac"), noise(50_000))
    content = bytearray(path.with_suffix(".flac").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 20_000] = bytes(20_000)
    path.write_bytes(content)


def piped_flac(path):
    flac_of(0)(path.with_suffix(".flac"))
    path.with_suffix(".flac").rename(path)


def truncated_wav(path):
    save(path.with_suffix(".wav"), noise(50_000))
    path.write_bytes(path.with_suffix(".wav").read_bytes()[:50_000])


def truncated_ogg(path):
    soundfile.write(path, noise(50_000), RATE, format="OGG")
    path.write_bytes(path.read_bytes()[:-1])


def not_numbers(path):
    samples = np.zeros(5000, np.float32)
    samples[3000] = np.nan
    soundfile.write(path, samples, RATE, "FLOAT", format="WAV")


DAMAGES = {
    "truncated FLAC": (truncated_flac, "truncated|corrupt"),
    "damaged FLAC": (damaged_flac, "truncated|corrupt"),
    "truncated WAV": (truncated_wav, "truncated"),
    "truncated Ogg": (truncated_ogg, "truncated"),
    "MP3 of changing bit rate": (
        lambda path: path.write_bytes(silence(32) * 9 + silence(320) * 9),
        "an MP3 of changing bit rate that does not say how long it is: encode it again",
    ),
    "FLAC from a pipe": (piped_flac, "does not say how long it is: encode it again"),
    "missing": (lambda path: None, "missing"),
    "empty file": (lambda path: path.write_bytes(b""), "corrupt, or of a format"),
    "text": (lambda path: path.write_text("hello" * 99), "corrupt, or of a format"),
    "a folder": (lambda path: path.mkdir(), "is no file"),
    "a pipe": (os.mkfifo, "is no file"),
    "no samples": (
        lambda path: soundfile.write(path, noise(0), RATE, "PCM_16", format="WAV"),
        "holds no samples",
    ),
    "not numbers": (not_numbers, "not numbers"),
    "too loud": (
        lambda path: soundfile.write(
            path, noise(5000) * 1e20, RATE, "FLOAT", format="WAV"
        ),
        "a million times louder",
    ),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_one_sentence_with_the_file(tmp_path, damage, said):
    path = tmp_path / "a b.audio"
    damage(path)
    source = Source("a_b", str(path))
    with pytest.raises(RecipeError, match=f"a b.audio.*({said})"):
        waveform.seconds(source)
        read(source)


def test_a_command_in_the_place_of_a_file_is_told_to_be_one():
    with pytest.raises(RecipeError, match=r"flac -dc a \| .* is a command, which"):
        waveform.seconds(Source("a", "flac -dc a |"))


@pytest.mark.parametrize(
    "times", [(0.5, 1.125), (0.7, 0.8), (0, math.inf), (0, 1e308), (1e307, 1e308)]
)
def test_segment_beyond_the_end_is_named(tmp_path, times):
    source = save(tmp_path / "a.wav", noise(5000))
    with pytest.raises(RecipeError, match=r"ends at 0.625 s.*segment a-1"):
        waveform.seconds(Source("a-1", source.path, *times))


def test_a_segment_a_little_beyond_the_end_ends_with_its_recording(tmp_path):
    samples = noise(5000)
    source = save(tmp_path / "a.wav", samples)
    part = Source("a-1", source.path, 0.1, 1.12)
    assert waveform.seconds(part) == 4200 / RATE
    expected = samples[800:].astype(np.float32) / 32768
    np.testing.assert_array_equal(read(part), expected)


def test_a_segment_without_a_sample_is_named(tmp_path):
    source = save(tmp_path / "a.wav", noise(5000))
    with pytest.raises(RecipeError, match=r"a-1.* holds no samples: correct or"):
        waveform.seconds(Source("a-1", source.path, 0.25, 0.25001))


def test_a_file_that_may_not_be_read_is_told_and_the_rest_measured(
    tmp_path, monkeypatch
):
    sources = [save(tmp_path / name, noise(800)) for name in ("a.wav", "b.wav")]
    opened = waveform.opened

    def refuse(source):
        if source.name == "a":
            raise PermissionError(13, "Permission denied", source.path)
        return opened(source)

    monkeypatch.setattr(waveform, "opened", refuse)
    problems = []
    assert waveform.measured(sources, problems) == {sources[1]: 0.1}
    assert len(problems) == 1 and "Permission denied" in problems[0]


def test_a_name_that_is_too_long_is_told(tmp_path):
    with pytest.raises(RecipeError, match="is missing: correct the path"):
        waveform.seconds(Source("a", str(tmp_path / ("x" * 300))))
