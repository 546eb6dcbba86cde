"""How long MP3 files are that do not say so: by the headers of all their frames.

libsndfile estimates that by the first frame and stops there, if the file has no header
of Xing, LAME or Fraunhofer.
"""

import mmap
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from espnet_srupp.recipe.files import once

# kilobits a second of layer III by MPEG version; 2.5 has the same as 2
RATES_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
RATES_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
# version to its bit rates, samples of a frame, and sampling rates in Hz
VERSIONS = {
    3: (RATES_1, 1152, (44100, 48000, 32000)),
    2: (RATES_2, 576, (22050, 24000, 16000)),
    0: (RATES_2, 576, (11025, 12000, 8000)),
}
# in place of sound in a first frame; Xing's odd flags say that the frames are counted
TAG = re.compile(rb"VBRI|Xing|Info")
COUNT = re.compile(rb"VBRI|(?:Xing|Info)\0{3}[\1\3\5\7\x09\x0b\x0d\x0f](?!\0{4})")
# their bytes, where those are counted too
BYTES = re.compile(rb"(?:Xing|Info)\0{3}[\3\7\x0b\x0f].{4}(?!\0{4})(.{4})", re.DOTALL)
TAG_BYTES = 54  # of a first frame, with a checksum and two channels
ID3_HEADER = 10  # bytes
GARBAGE = 1024  # bytes between frames that libsndfile passes over


class Frame(NamedTuple):
    """What the header of a frame says.

    Attributes:
        kind: what all frames of a file have in common.
        rate: kilobits a second.
        length: in bytes.
        samples: of each channel.
    """

    kind: tuple[int, int]
    rate: int
    length: int
    samples: int


# a long recording may be opened for each of its segments
@once
def samples_by_rate(path: str) -> Counter[int]:
    """Samples of each channel by kilobits a second, from all frames of an MP3 file.

    Empty if the file says how long it is, or is of no bit rate or layer known here.
    """
    with mapped(path) as data:
        begin = next_frame(data, 0)
        if begin is None:
            return Counter()
        first = frame_at(data, begin)
        tag = data[begin : begin + min(first.length, TAG_BYTES)]
        if COUNT.search(tag):
            return Counter()
        if TAG.search(tag):
            begin += first.length
        return counted(data, begin, first.kind)


@contextmanager
def mapped(path: str) -> Iterator[mmap.mmap]:
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        yield data


@once
def goes_on(path: str) -> bool:
    """Whether a second or more of sound follows where the header of a file ends it.

    It does so in files that were put one after the other; libsndfile reads the first.
    """
    with mapped(path) as data:
        begin = next_frame(data, 0)
        first = None if begin is None else frame_at(data, begin)
        said = first and BYTES.search(data[begin : begin + TAG_BYTES])
        if not said:
            return False
        end = begin + int.from_bytes(said[1], "big")
        more = counted(data, next_frame(data, end), first.kind)
        version, hertz = first.kind
        return more.total() >= VERSIONS[version][2][hertz]


def counted(data: mmap.mmap, at: int | None, kind: tuple[int, int]) -> Counter[int]:
    found: Counter[int] = Counter()
    while at is not None:
        frame = frame_at(data, at)
        if frame is None or frame.kind != kind:
            at = next_frame(data, at, kind)
            continue
        at += frame.length
        if at <= len(data):
            found[frame.rate] += frame.samples
    return found


def next_frame(
    data: mmap.mmap, at: int, kind: tuple[int, int] | None = None
) -> int | None:
    """Where the next frame begins, behind ID3 tags and a little of anything else.

    Any bytes may look like a header: another frame or the end has to follow.
    """
    while data[at : at + 3] == b"ID3":
        size = data[at + 6 : at + ID3_HEADER]
        at += ID3_HEADER + sum(b << 7 * n for n, b in enumerate(reversed(size)))
    for begin in range(at, min(at + GARBAGE, len(data))):
        frame = frame_at(data, begin)
        if frame is None or kind not in (None, frame.kind):
            continue
        end = begin + frame.length
        follower = frame_at(data, end)
        if end == len(data) or (follower and follower.kind == frame.kind):
            return begin
    return None


def frame_at(data: mmap.mmap, at: int) -> Frame | None:
    head = data[at : at + 3]
    return header(head[1], head[2]) if len(head) == 3 and head[0] == 0xFF else None


@cache
def header(second: int, third: int) -> Frame | None:
    """What two bytes behind 255 say, None if they are of no header of layer III."""
    version, rate, hertz = second >> 3 & 3, third >> 4, third >> 2 & 3
    layer_3 = second >= 0xE0 and second >> 1 & 3 == 1
    # a rate of 0 is one that no header tells
    if not layer_3 or version not in VERSIONS or rate in (0, 15) or hertz == 3:
        return None
    rates, samples, sampling = VERSIONS[version]
    length = samples // 8 * 1000 * rates[rate - 1] // sampling[hertz]
    padding = third >> 1 & 1
    return Frame((version, hertz), rates[rate - 1], length + padding, samples)
