"""A file that breaks off is known by its header, where that says how long it is."""

import os

import numpy as np
import pytest
import soundfile

from espnet_srupp.recipe import sound
from espnet_srupp.recipe.errors import DataError
from espnet_srupp.recipe.truncation import truncated

FS = 16000
FORMATS = {
    "WAV": {"format": "WAV"},
    "WAV of big endian": {"format": "WAV", "endian": "BIG"},
    "WAV of 24 bits": {"format": "WAVEX", "subtype": "PCM_24"},
    "RF64": {"format": "RF64"},
    "W64": {"format": "W64"},
    "AIFF": {"format": "AIFF"},
    "AIFF of floats": {"format": "AIFF", "subtype": "FLOAT"},
    "AU": {"format": "AU"},
    "AU of little endian": {"format": "AU", "endian": "LITTLE"},
    "NIST": {"format": "NIST"},
    "NIST of 8 bits": {"format": "NIST", "subtype": "ULAW"},
    "Ogg Vorbis": {"format": "OGG", "subtype": "VORBIS"},
    "Ogg Opus": {"format": "OGG", "subtype": "OPUS"},
}


def write(path, **options):
    """Writes 5 s of noise, an odd number of samples that needs several pages of Ogg."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 5 * FS + 1)
    soundfile.write(path, noise, FS, **options)
    return path.read_bytes()


@pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)
def test_a_file_that_breaks_off_is_truncated_wherever_it_does(tmp_path, options):
    path = tmp_path / "x.audio"
    content = write(path, **options)
    assert not truncated(str(path))
    assert len(sound.load(str(path), "x")[0]) == 5 * FS + 1
    for length in (len(content) // 3, len(content) // 2, len(content) - 2):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"\(utterance x\) is truncated"):
            sound.load(str(path), "x")


@pytest.mark.parametrize("subtype", ["PCM_16", "ALAC_16"])
def test_caf_that_lacks_less_than_libsndfile_misses_is_truncated(tmp_path, subtype):
    path = tmp_path / "x.caf"
    content = write(path, format="CAF", subtype=subtype)
    assert not truncated(str(path))
    for length in (len(content) - 100, len(content) - 2):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"\(utterance x\) is truncated"):
            sound.load(str(path), "x")


def test_ogg_that_ends_with_a_page_is_truncated_unless_it_is_the_last(tmp_path):
    path = tmp_path / "x.ogg"
    content = write(path, format="OGG")
    pages = [n for n in range(len(content)) if content.startswith(b"OggS\0", n)]
    assert len(pages) > 4
    for end in pages[2:]:
        path.write_bytes(content[:end])
        assert truncated(str(path))


@pytest.mark.parametrize("more", [b"TAG" + bytes(125), None], ids=["tag", "stream"])
def test_what_follows_the_last_page_of_ogg_is_no_truncation(tmp_path, more):
    path = tmp_path / "x.ogg"
    content = write(path, format="OGG")
    path.write_bytes(content + (content if more is None else more))
    assert not truncated(str(path))


def in_chunk(name, offset, number):
    """Puts a number at some bytes after a chunk's name."""

    def change(content):
        begin = content.index(name) + offset
        return content[:begin] + number + content[begin + len(number) :]

    return change


UNKNOWN = {
    "RF64": ("RF64", in_chunk(b"ds64", 16, b"\xff" * 8)),
    "RF64 of a pipe": ("RF64", in_chunk(b"ds64", 16, bytes(8))),
    "W64": ("W64", in_chunk(b"data", 16, b"\xff" * 7 + b"\x7f")),
    # after which there would be no end of it
    "W64 of a chunk of no size": ("W64", in_chunk(b"fmt ", 16, bytes(8))),
    "AIFF": ("AIFF", in_chunk(b"SSND", 4, b"\x7f\x00\x00\x08")),
    "CAF": ("CAF", in_chunk(b"data", 4, b"\xff" * 8)),
    "AU": ("AU", in_chunk(b".snd", 8, b"\xff" * 4)),
    "NIST": ("NIST", in_chunk(b"sample_count", 0, b"comment_note")),
    "NIST of no size": ("NIST", in_chunk(b"NIST_1A", 8, b"       ")),
}


@pytest.mark.parametrize("kind, change", UNKNOWN.values(), ids=UNKNOWN)
def test_a_file_that_does_not_say_its_length_is_not_truncated(tmp_path, kind, change):
    path = tmp_path / "x.audio"
    path.write_bytes(change(write(path, format=kind))[:-1000])
    assert not truncated(str(path))


def test_no_header_makes_it_fail(tmp_path):
    """Headers that were cut, or hold any bytes."""
    path = tmp_path / "x.audio"
    random = np.random.default_rng(0)
    for options in (*FORMATS.values(), {"format": "CAF"}):
        content = write(path, **options)[:200]
        for length in range(0, 200, 13):
            path.write_bytes(content[:length])
            truncated(str(path))
            path.write_bytes(content[:4] + random.bytes(length))
            truncated(str(path))
            path.write_bytes(content[:length] + b"\xff" * (200 - length))
            truncated(str(path))


NOTES = {
    "WAV": (b"data", b"note" + (3).to_bytes(4, "little") + b"abc\0"),
    "AIFF": (b"SSND", b"NOTE" + (3).to_bytes(4, "big") + b"abc\0"),
    "W64": (
        b"data",
        b"note" + bytes(12) + (27).to_bytes(8, "little") + b"abc" + bytes(5),
    ),
}


@pytest.mark.parametrize("kind", NOTES)
def test_a_note_of_odd_length_before_the_samples_hides_no_truncation(tmp_path, kind):
    path, (samples, note) = tmp_path / "x.audio", NOTES[kind]
    content = write(path, format=kind)
    begin = content.index(samples)
    content = content[:begin] + note + content[begin:]
    path.write_bytes(content)
    assert not truncated(str(path))
    path.write_bytes(content[:-1000])
    assert truncated(str(path))


def test_nist_of_two_channels_that_breaks_off_is_truncated(tmp_path):
    path = tmp_path / "x.sph"
    soundfile.write(path, np.zeros((FS, 2)), FS, format="NIST")
    assert not truncated(str(path))
    path.write_bytes(path.read_bytes()[:-4])
    assert truncated(str(path))


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFF000, 2**30])
@pytest.mark.parametrize(
    ("form", "chunk", "order"), [("WAV", b"data", "little"), ("AIFF", b"SSND", "big")]
)
def test_what_is_larger_than_its_header_can_tell_is_told(
    tmp_path, form, chunk, order, length
):
    path = tmp_path / "x"
    soundfile.write(path, np.zeros(100), FS, "PCM_16", format=form)
    content = bytearray(path.read_bytes())
    at = content.find(chunk) + 4
    content[at : at + 4] = length.to_bytes(4, order)
    path.write_bytes(content)
    os.truncate(path, 5 * 2**30)
    with sound.opened(str(path), "x") as file:
        with pytest.raises(DataError, match="larger than the 4 GiB"):
            sound.frames(file, "x")


def test_the_header_of_rf64_can_tell_more(tmp_path):
    path = tmp_path / "x"
    soundfile.write(path, np.zeros(100), FS, "PCM_16", format="RF64")
    os.truncate(path, 5 * 2**30)
    with sound.opened(str(path), "x") as file:
        assert sound.frames(file, "x") == 100
