"""Stages 2 and 3: the samples are right, and what is left out is told."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_srupp.recipe import audio, datadir, sound
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.table import read_table

FS = 16000


def tone(seconds, hertz=440.0, rate=FS):
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A set of four WAV files of 1.0, 1.1, 1.2 and 1.3 s by two speakers."""
    monkeypatch.chdir(tmp_path)
    Path("wav").mkdir()
    data = DataDir({}, {}, {})
    for number in range(4):
        name = f"s{number // 2}-u{number}"
        data.wav[name] = f"wav/{name}.wav"
        data.text[name], data.utt2spk[name] = "HELLO", name[:2]
        soundfile.write(data.wav[name], tone(1 + number / 10), FS)
    datadir.write(data, Path("data/set"))
    return Path("data/set")


def peak_hertz(samples, rate=FS):
    return np.abs(np.fft.rfft(samples)).argmax() * rate / len(samples)


# stage 2


def test_perturbed_speed_changes_tempo_and_pitch_together(source):
    audio.perturb_speed(source, Path("data/set_sp"), [0.9, 1.0, 1.1], FS, nj=2)
    data = datadir.read(Path("data/set_sp"))
    assert len(data.text) == 12
    assert data.utt2spk["sp0.9-s0-u0"] == "sp0.9-s0"
    assert data.wav["s0-u0"] == "wav/s0-u0.wav"
    for factor in (0.9, 1.1):
        samples, rate = sound.load(data.wav[f"sp{factor}-s0-u0"], "")
        assert rate == FS
        assert len(samples) == pytest.approx(FS / factor, abs=1)
        assert peak_hertz(samples) == pytest.approx(440 * factor, abs=1)
        assert np.abs(samples[2000:-2000]).max() == pytest.approx(0.5, abs=0.01)


def test_perturbed_speed_cuts_segments(source):
    data = DataDir(
        {"r": "wav/s1-u3.wav"},
        {"s-a": "A", "s-b": "B"},
        {"s-a": "s", "s-b": "s"},
        {"s-a": ("r", 0.0, 0.5), "s-b": ("r", 0.5, 1.25)},
    )
    datadir.write(data, Path("data/cut"))
    audio.perturb_speed(Path("data/cut"), Path("data/cut_sp"), [1.0, 2.0], FS, nj=1)
    made = datadir.read(Path("data/cut_sp"))
    lengths = {u: len(sound.load(path, u)[0]) for u, path in made.wav.items()}
    assert made.segments is None
    assert lengths == {"s-a": 8000, "s-b": 12000, "sp2-s-a": 4000, "sp2-s-b": 6000}


def test_an_id_that_another_has_at_a_speed_is_named(source):
    data = datadir.read(source)
    first = next(iter(data.text))
    for table in (data.wav, data.text, data.utt2spk):
        table[f"sp0.9-{first}"] = table[first]
    datadir.write(data, source)
    with pytest.raises(RecipeError, match=f"sp0.9-{first} would be two utterances"):
        audio.perturb_speed(source, Path("data/set_sp"), [0.9, 1.0], FS, nj=1)


# stage 3


def test_formatting_converts_without_loss_and_counts_samples(source):
    audio.format_audio(source, Path("dump/set"), FS, "flac", nj=2)
    before, after = datadir.read(source), datadir.read(Path("dump/set"))
    assert after.text == before.text and after.utt2spk == before.utt2spk
    for utterance, path in after.wav.items():
        assert path.startswith("dump/set/data/") and path.endswith(".flac")
        old, _ = soundfile.read(before.wav[utterance], dtype="int16")
        new, _ = soundfile.read(path, dtype="int16")
        np.testing.assert_array_equal(new, old)
    counts = read_table(Path("dump/set/utt2num_samples"))
    assert list(counts.values()) == ["16000", "17600", "19200", "20800"]
    assert Path("dump/set/feats_type").read_text() == "raw\n"


@pytest.mark.parametrize("audio_format", ["flac", "wav"])
def test_other_audio_of_the_same_length_has_another_hash(source, audio_format):
    def hashes():
        audio.format_audio(source, Path("dump/set"), FS, audio_format, nj=2)
        return read_table(Path("dump/set/utt2hash"))

    before = hashes()
    os.utime("wav/s0-u0.wav")
    assert hashes() == before
    samples = tone(1.0)
    samples[-1] += 2**-15
    soundfile.write("wav/s0-u0.wav", samples, FS)
    changed = {u for u, content in hashes().items() if content != before[u]}
    assert changed == {"s0-u0"}


def test_formatting_leaves_audio_of_the_wanted_format_where_it_lies(source):
    audio.format_audio(source, Path("dump/set"), FS, "wav", nj=1)
    assert datadir.read(Path("dump/set")).wav == datadir.read(source).wav
    assert not Path("dump/set/data").exists()
    assert Path("dump/set/audio_format").read_text() == "wav\n"


def test_formatting_cuts_segments_at_their_samples(source):
    data = DataDir(
        {"r": "wav/s1-u3.wav"}, {"a": "A"}, {"a": "s"}, {"a": ("r", 0.25, 1.0)}
    )
    datadir.write(data, Path("data/cut"))
    audio.format_audio(Path("data/cut"), Path("dump/cut"), FS, "wav", nj=1)
    made = datadir.read(Path("dump/cut"))
    expected, _ = soundfile.read("wav/s1-u3.wav", dtype="int16")
    cut, _ = soundfile.read(made.wav["a"], dtype="int16")
    np.testing.assert_array_equal(cut, expected[4000:16000])
    assert made.segments is None


def cut_of(start, end):
    """Writes a set of one segment of a recording of a second."""
    segments = {"a": ("r", start, end)}
    data = DataDir({"r": "wav/s0-u0.wav"}, {"a": "A"}, {"a": "s"}, segments)
    datadir.write(data, Path("data/cut"))


def test_a_segment_a_little_after_the_end_ends_with_its_recording(source):
    cut_of(0.25, 1.49)
    audio.format_audio(Path("data/cut"), Path("dump/cut"), FS, "wav", nj=1)
    made, _ = soundfile.read(datadir.read(Path("dump/cut")).wav["a"])
    np.testing.assert_array_equal(made, soundfile.read("wav/s0-u0.wav")[0][4000:])


def test_a_segment_after_the_end_is_named(source):
    cut_of(0.0, 2.0)
    with pytest.raises(RecipeError, match=r"ends at 1.000 s, before.*segment a at 2.0"):
        audio.format_audio(Path("data/cut"), Path("dump/cut"), FS, "wav", nj=1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
def test_a_full_disk_in_a_process_is_named_and_leaves_nothing(source, monkeypatch):
    # the processes are forked, and find the device in place of each file
    monkeypatch.setattr(
        Path, "write_bytes", lambda path, data: open("/dev/full", "wb").write(data)
    )
    with pytest.raises(RecipeError, match="no space left .* writing dump/set"):
        audio.format_audio(source, Path("dump/set"), FS, "flac", nj=2)
    assert os.listdir("dump") == []


INTERRUPTED = """
import signal, time
from pathlib import Path
from espnet_srupp.recipe import audio, sound
# a suite in the background may have been started with it ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
def slow(path, samples, rate):
    path.touch()
    while not Path("end").exists():
        time.sleep(0.01)
sound.save = slow
audio.format_audio(Path("data/set"), Path("dump/set"), 16000, "flac", 2)
"""


def test_an_interrupt_leaves_nothing_half_written_and_no_process(source):
    Path("stage.py").write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, "stage.py"],
        env={**os.environ, "PYTHONPATH": str(Path(audio.__file__).parents[2])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(Path("dump").glob(".set.partial/data/*/*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # as a terminal does it: to all processes of the group
    os.killpg(process.pid, signal.SIGINT)
    Path("end").touch()
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert errors.count("Traceback") == 1 and "KeyboardInterrupt" in errors
    assert os.listdir("dump") == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_folder_has_no_more_files_than_are_fast_to_list(source, monkeypatch):
    monkeypatch.setattr(audio, "FILES_PER_FOLDER", 3)
    audio.perturb_speed(source, Path("data/set_sp"), [0.9], FS, nj=1)
    audio.format_audio(source, Path("dump/set"), FS, "flac", nj=1)
    for folder in ("data/set_sp/audio/speed0.9/{}", "dump/set/data/format.{}"):
        assert [len(os.listdir(folder.format(n))) for n in (1, 2)] == [3, 1]


def test_a_hash_is_that_of_the_segment(source):
    def hashes(start):
        cut_of(start, start + 0.5)
        audio.format_audio(Path("data/cut"), Path("dump/cut"), FS, "wav", nj=1)
        return read_table(Path("dump/cut/utt2hash"))

    # not whole periods of the tone apart
    assert hashes(0.0) != hashes(0.1001)


@pytest.mark.parametrize("top", [32767 / 32768, -1.0])
@pytest.mark.parametrize(("count", "told"), [(15, False), (16, True)])
def test_audio_of_which_a_thousandth_is_at_full_scale_is_told(
    source, capsys, top, count, told
):
    samples = tone(1)
    samples[:count] = top
    soundfile.write("wav/s0-u0.wav", samples, FS, subtype="FLOAT")
    audio.format_audio(source, Path("dump/set"), FS, "wav", nj=1)
    assert ("1 utterances of data/set are clipped" in capsys.readouterr().out) == told


def test_a_suffix_in_capitals_is_the_wanted_format_too(source):
    data = datadir.read(source)
    data.wav = {
        u: str(Path(path).rename(f"wav/{u}.WAV")) for u, path in data.wav.items()
    }
    datadir.write(data, source)
    audio.format_audio(source, Path("dump/set"), FS, "wav", nj=1)
    assert datadir.read(Path("dump/set")).wav == data.wav


def test_resampled_audio_is_written_whatever_format_it_had(source):
    audio.format_audio(source, Path("dump/set"), 8000, "wav", nj=1, resample=True)
    counts = read_table(Path("dump/set/utt2num_samples"))
    assert list(counts.values()) == ["8000", "8800", "9600", "10400"]
    for utterance, path in datadir.read(Path("dump/set")).wav.items():
        samples, rate = soundfile.read(path)
        assert (str(len(samples)), rate) == (counts[utterance], 8000)
