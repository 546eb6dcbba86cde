"""MP3 files that do not say how long they are lose nothing, or are told."""

import numpy as np
import pytest
import soundfile

from espnet_srupp.longform import waveform
from espnet_srupp.longform.sources import Source
from espnet_srupp.recipe import mpeg, sound
from espnet_srupp.recipe.errors import DataError

RATES = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
ID3 = b"ID3\3\0\0\0\0\1\2" + b"\xff\xfb\x90\xc4" * 32 + b"\0\0"
ID3_1 = b"TAG" + bytes(125)
APE = b"APETAGEX" + bytes(4000)
CHANGING = r"x.mp3 \(utterance x\) is an MP3 of changing bit rate that does not say"


def silence(rate, padding=0):
    """A frame of MPEG 1 in mono at 44.1 kHz, of so many kilobits a second."""
    header = bytes([0xFF, 0xFB, (RATES.index(rate) + 1) << 4 | padding << 1, 0xC4])
    return header + bytes(144_000 * rate // 44_100 + padding - 4)


def load(path, content):
    path.write_bytes(content)
    return len(sound.load(str(path), "x")[0])


STEADY = [silence(128), *(silence(128, padding=n % 9 > 0) for n in range(99))]


def test_the_walk_counts_every_frame_of_each_bit_rate(tmp_path):
    path = tmp_path / "x.mp3"
    path.write_bytes(silence(64) * 3 + silence(128) * 2 + silence(64))
    assert mpeg.samples_by_rate(str(path)) == {64: 4 * 1152, 128: 2 * 1152}


def test_a_recording_is_walked_once_for_all_its_segments(tmp_path, monkeypatch):
    path, walks = tmp_path / "x.mp3", []
    path.write_bytes(b"".join(STEADY))
    counted = mpeg.counted
    monkeypatch.setattr(mpeg, "counted", lambda *of: walks.append(of) or counted(*of))
    found = [Source(f"s{n}", str(path), n / 2, n / 2 + 0.5) for n in range(5)]
    assert [*waveform.measured(found, []).values()] == [0.5] * 5
    assert len(walks) == 1
    path.write_bytes(b"".join(STEADY[:50]))
    assert sound.load(str(path), "x")[0].size == 50 * 1152
    assert len(walks) == 2


@pytest.mark.parametrize(
    ("before", "behind"),
    [(b"", b""), (ID3, b""), (ID3 * 20, ID3_1), (bytes(500), b""), (b"", APE + ID3_1)],
    ids=["bare", "ID3", "much-ID3", "zeros", "APE"],
)
def test_one_bit_rate_is_read_whole_whatever_is_around_it(tmp_path, before, behind):
    content = before + b"".join(STEADY) + behind
    assert load(tmp_path / "x.mp3", content) == 100 * 1152


def test_what_lies_between_frames_is_passed_over(tmp_path):
    path = tmp_path / "x.mp3"
    path.write_bytes(silence(128) * 9 + ID3 + bytes(99) + silence(128) * 9 + b"\xff")
    assert mpeg.samples_by_rate(str(path)) == {128: 18 * 1152}


@pytest.mark.parametrize("rates", [(32, 320), (320, 32)], ids=["rising", "falling"])
@pytest.mark.parametrize("before", [b"", ID3], ids=["bare", "ID3"])
def test_a_changing_bit_rate_is_told(tmp_path, before, rates):
    content = before + b"".join(silence(rate) * 50 for rate in rates)
    with pytest.raises(DataError, match=CHANGING):
        load(tmp_path / "x.mp3", content)


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize("mode", ["VARIABLE", "CONSTANT"])
def test_with_a_header_it_is_read_whole_and_not_walked(tmp_path, rate, mode):
    path = tmp_path / "x.mp3"
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 2 * rate)
    # loud behind silence: a first frame of another bit rate
    samples = np.concatenate([np.zeros(rate), noise])
    soundfile.write(path, samples, rate, bitrate_mode=mode, compression_level=0.5)
    content = path.read_bytes()
    assert load(path, content) == len(samples)
    assert mpeg.samples_by_rate(str(path)) == {}
    assert load(path, ID3 + content + ID3_1) == len(samples)

    (first,) = {mpeg.header(*content[1:3])}
    without = content[first.length :]
    if mode == "CONSTANT":
        assert len(samples) <= load(path, without) < len(samples) + 4 * first.samples
    else:
        with pytest.raises(DataError, match=CHANGING):
            load(path, without)


def test_a_header_that_does_not_count_is_no_header(tmp_path):
    frame = silence(64)
    tags = [b"Xing\0\0\0\1" + bytes(4), b"Xing\0\0\0\2" + b"1234", b"Xing\0\0\0\0"]
    for tag in tags:
        first = frame[:21] + tag + frame[21 + len(tag) :]
        path = tmp_path / "x.mp3"
        path.write_bytes(first + silence(128) * 4)
        # the clock of a file system may not tell two of them apart
        mpeg.samples_by_rate.cache_clear()
        assert mpeg.samples_by_rate(str(path)) == {128: 4 * 1152}


def test_no_bytes_make_the_walk_fail_or_go_on_for_ever(tmp_path):
    random, path = np.random.default_rng(0), tmp_path / "x.mp3"
    start = silence(32) * 3
    for size in range(1, 300, 3):
        for content in (random.bytes(size), b"\xff" * size, b"ID3" + bytes(size)):
            path.write_bytes(start[:size] + content)
            mpeg.samples_by_rate.cache_clear()
            mpeg.samples_by_rate(str(path))


def test_a_frame_that_is_cut_off_is_not_counted(tmp_path):
    path = tmp_path / "x.mp3"
    path.write_bytes((silence(128) * 9)[:-1])
    assert mpeg.samples_by_rate(str(path)) == {128: 8 * 1152}


@pytest.mark.parametrize("channels", [1, 2])
def test_another_file_behind_the_end_of_one_is_seen(tmp_path, channels):
    path = tmp_path / "a.mp3"
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (88_200, channels))
    soundfile.write(path, noise, 44_100)
    assert not mpeg.goes_on(str(path))
    path.write_bytes(2 * path.read_bytes())
    assert mpeg.goes_on(str(path))
