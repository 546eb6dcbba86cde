"""Every bit of the audio is kept, and bad audio is named and left out."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from data.small_recordings import (
    RATE,
    audio,
    join,
    noise,
    provenance,
    save,
    write_chapters,
)
from test_recipe_bad_audio import flac_of
from test_recipe_mpeg import APE, STEADY, silence

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir

pytestmark = pytest.mark.usefixtures("in_process")
ALL = {*(f"1-20-{number:04}" for number in range(4)), "1-21-0004"}


@pytest.fixture
def chapters(tmp_path):
    return write_chapters(tmp_path)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_what_is_louder_than_full_scale_is_clipped(tmp_path, subtype):
    # a square wave overshoots once its harmonics are coarser
    loud = np.sign(np.sin(np.arange(16000) * 0.05))
    wav = {"1-2-0000": save(tmp_path / "a.ogg", loud, 8000, subtype)}
    decoded = soundfile.read(wav["1-2-0000"])[0]
    assert np.abs(decoded).max() > 1.001
    source = DataDir(wav, {"1-2-0000": "A"}, {"1-2-0000": "1"})
    datadir.write(source, tmp_path / "source")
    assert join(tmp_path, "--num-utts", "1") == 0
    (path,) = datadir.read(tmp_path / "target").wav.values()
    np.testing.assert_allclose(
        soundfile.read(path)[0], np.clip(decoded, -1, 1), atol=2**-15
    )


@pytest.mark.parametrize(
    ("subtype", "dtype", "kept", "suffix"),
    [
        ("PCM_16", "int16", "PCM_16", "flac"),
        ("PCM_24", "int32", "PCM_24", "flac"),
        ("PCM_32", "int32", "PCM_32", "wav"),
        ("FLOAT", "float32", "FLOAT", "wav"),
        ("DOUBLE", "float64", "DOUBLE", "wav"),
        ("ALAC_16", "int16", "PCM_16", "flac"),
        ("ALAC_20", "int32", "PCM_24", "flac"),
        ("ALAC_24", "int32", "PCM_24", "flac"),
        ("ALAC_32", "int32", "PCM_32", "wav"),
    ],
)
def test_every_bit_is_kept(tmp_path, subtype, dtype, kept, suffix):
    container = "caf" if subtype.startswith("ALAC") else "wav"
    random = np.random.default_rng(0)
    values = [random.uniform(-1, 1, 50) for _ in range(2)]
    wav = {
        f"1-2-000{n}": save(tmp_path / f"{n}.{container}", value, subtype=subtype)
        for n, value in enumerate(values)
    }
    source = DataDir(wav, dict.fromkeys(wav, "A"), dict.fromkeys(wav, "1"))
    datadir.write(source, tmp_path / "source")
    assert join(tmp_path, "--num-utts", "2") == 0
    (path,) = datadir.read(tmp_path / "target").wav.values()
    assert path.endswith(f".{suffix}")
    assert (tmp_path / "target" / "audio_format").read_text() == f"{suffix}\n"
    assert soundfile.info(path).subtype == kept
    parts = [soundfile.read(file, dtype=dtype)[0] for file in wav.values()]
    made = soundfile.read(path, dtype=dtype)[0]
    np.testing.assert_array_equal(made, np.concatenate(parts))


def damage(chapters, change):
    """Lets a function change the data of a valid set before it is written again."""
    data = datadir.read(chapters / "source")
    change(chapters, data)
    datadir.write(data, chapters / "source")


def at_other_rate(folder, data):
    save(Path(data.wav["1-20-0001"]), noise(200, 1), rate=800)


def wider(folder, data):
    save(Path(data.wav["1-20-0002"]), noise(300, 2), subtype="PCM_24")


def two_bad(folder, data):
    """Stereo, and truncated FLAC."""
    save(Path(data.wav["1-20-0000"]), noise(200, 0).reshape(100, 2))
    path = Path(data.wav["1-21-0004"])
    path.write_bytes(path.read_bytes()[:-400])


def truncated_wav(folder, data):
    path = Path(save(folder / "wav/cut.wav", noise(500, 0)))
    path.write_bytes(path.read_bytes()[:-100])
    data.wav["1-21-0004"] = str(path)


def two_missing(folder, data):
    data.wav["1-20-0000"] = "there/is/none.flac"
    Path(data.wav["1-20-0003"]).write_text("not audio")


def of_unknown_length(folder, data):
    flac_of(0, RATE)(Path(data.wav["1-20-0001"]))


def of_changing_bit_rate(folder, data):
    path = Path(data.wav["1-20-0001"])
    path.write_bytes(silence(320) * 9 + silence(32) * 9)


def of_days(folder, data):
    """By their headers alone: zeros for one would fill the memory."""
    for name in ("1-20-0000", "1-20-0001"):
        flac_of(1 << 35, RATE)(Path(data.wav[name]))


@pytest.mark.parametrize(
    ("change", "sentences", "left"),
    [
        (
            at_other_rate,
            ["1-20-0001 is PCM_16 at 800 Hz, 1-20-0000, 1-20-0002, 1-20-0003 and 1"],
            ALL - {"1-20-0001"},
        ),
        (wider, ["1-20-0002 is PCM_24 at 1000 Hz"], ALL - {"1-20-0002"}),
        (
            two_bad,
            ["(utterance 1-20-0000) has 2 channels", "(utterance 1-21-0004) is"],
            ALL - {"1-20-0000", "1-21-0004"},
        ),
        (
            truncated_wav,
            ["cut.wav (utterance 1-21-0004) is truncated"],
            ALL - {"1-21-0004"},
        ),
        (
            two_missing,
            ["none.flac (utterance 1-20-0000) is missing", "is corrupt"],
            ALL - {"1-20-0000", "1-20-0003"},
        ),
        (
            of_unknown_length,
            ["0001.flac (utterance 1-20-0001) does not say how long it is: encode it"],
            ALL - {"1-20-0001"},
        ),
        (
            of_changing_bit_rate,
            ["0001.flac (utterance 1-20-0001) is an MP3 of changing bit rate that"],
            ALL - {"1-20-0001"},
        ),
        (
            of_days,
            [
                "0001 is not made, and 1-20-0000, 1-20-0001, 1-20-0002 are left out",
                "0000.flac (utterance 1-20-0000) is",
                "0001.flac (utterance 1-20-0001) is",
            ],
            {"1-20-0003", "1-21-0004"},
        ),
    ],
    ids=[
        *("rates", "sample-formats", "stereo-and-truncated", "truncated-wav"),
        *("missing", "unknown-length", "changing-bit-rate", "days"),
    ],
)
def test_bad_audio_is_named_and_the_rest_joined(
    chapters, capsys, change, sentences, left
):
    damage(chapters, change)
    assert join(chapters, "--num-utts", "3") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(sentences)
    for line, sentence in zip(lines, sentences, strict=True):
        assert line.startswith("error: ") and sentence in line
    assert {row[1] for row in provenance(chapters)} == left
    made = datadir.read(chapters / "target")
    assert made.text.keys() == audio(chapters).keys()
    written = (chapters / "target" / "audio").iterdir()
    assert {path.stem for path in written} == made.text.keys()


def test_mp3_without_a_length_is_joined_whole(tmp_path):
    (tmp_path / "a.mp3").write_bytes(b"".join(STEADY) + APE)
    wav = {"a-1": str(tmp_path / "a.mp3"), "a-2": str(tmp_path / "a.mp3")}
    data = DataDir(wav, dict.fromkeys(wav, "A"), dict.fromkeys(wav, "a"))
    datadir.write(data, tmp_path / "source")
    assert join(tmp_path, "--num-utts", "2", "--group", "()") == 0
    (made,) = audio(tmp_path).values()
    assert len(made) == 2 * 100 * 1152


def test_nothing_is_written_where_all_is_bad(chapters, capsys):
    for path in (chapters / "wav").iterdir():
        path.write_text("not audio")
    assert join(chapters, "--num-utts", "3") == 1
    assert capsys.readouterr().err.count("is corrupt") == len(ALL)
    assert not (chapters / "target").exists()


def test_each_file_of_several_channels_is_told_once_for_all_its_segments(
    tmp_path, capsys
):
    stereo = np.zeros((1000, 2))
    wav = {t: save(tmp_path / f"{t}.wav", stereo) for t in ("talk1", "talk2")}
    times = {f"{talk}-{n}": (talk, n / 5, n / 5 + 0.1) for talk in wav for n in (0, 1)}
    text, speakers = dict.fromkeys(times, "A"), dict.fromkeys(times, "talk")
    datadir.write(DataDir(wav, text, speakers, times), tmp_path / "source")
    assert join(tmp_path, "--num-utts", "2") == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "talk1.wav (utterance talk1) has 2 channels" in first
    assert "talk2.wav (utterance talk2) has 2 channels" in second


def test_what_is_bad_in_a_file_of_several_recordings_is_told_once(tmp_path, capsys):
    wav = {"talk": save(tmp_path / "talk.wav", np.full(1000, np.nan), subtype="FLOAT")}
    text = {f"talk-{n}": "A" for n in range(4)}
    segments = {u: ("talk", n / 5, n / 5 + 0.1) for n, u in enumerate(text)}
    data = DataDir(wav, text, dict.fromkeys(text, "talk"), segments)
    datadir.write(data, tmp_path / "source")
    assert join(tmp_path, "--num-utts", "2") == 1
    assert capsys.readouterr().err.count("samples that are not numbers") == 1
