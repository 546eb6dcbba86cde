"""Whether audio files are as long as their headers say.

libsndfile plays what is there and says nothing.
"""

import io
import re
from collections.abc import Callable
from functools import partial
from typing import BinaryIO

from espnet_srupp.recipe.ogg import HEADER, LAST

# a writer that cannot seek leaves a length of about this or more
UNKNOWN = 0x7F000000
UNKNOWN_LONG = 1 << 40  # of 64 bits; no file can be that long, or even be sought in
LONG = 0xFFFFFFFF  # in RF64: the length is that of the chunk ds64
W64_HEADER = 24  # bytes of a chunk's name and length, which counts them
OGG_TAIL = 1 << 17  # two pages at least


def truncated(path: str) -> bool:
    """Whether a file lacks samples that it promises; False if it promises none."""
    with open(path, "rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        end = ENDS.get(file.read(4))
        return end is not None and end(file) > size


def too_large(path: str) -> bool:
    """Whether a file is larger than its header, of 32 bits, can tell.

    libsndfile reads as much as the header says, perhaps a fifth of it.
    """
    with open(path, "rb") as file:
        short = file.read(4) in (b"RIFF", b"RIFX", b"FORM")
        return short and file.seek(0, io.SEEK_END) > LONG + 8


# Each tells where the samples of a file end by its header, 0 where that does not say.
# The first four bytes have been read.


def chunked_end(file: BinaryIO, order: str, samples: bytes) -> int:
    """Of RIFF, RF64 and AIFF, by the name of the chunk that holds the samples."""
    file.seek(12)
    long = 0
    while len(header := file.read(8)) == 8:
        length = int.from_bytes(header[4:], order)
        begin = file.tell()
        if header[:4] == b"ds64":
            long = int.from_bytes(file.read(16)[8:], order)
        if header[:4] == samples:
            if length == LONG and long < UNKNOWN_LONG:
                return begin + long
            return begin + length if length < UNKNOWN else 0
        # chunks begin at even offsets
        file.seek(begin + length + length % 2)
    return 0


def w64_end(file: BinaryIO) -> int:
    file.seek(40)
    while len(header := file.read(W64_HEADER)) == W64_HEADER:
        length = int.from_bytes(header[16:], "little")
        begin = file.tell() - W64_HEADER
        if not W64_HEADER <= length < UNKNOWN_LONG:
            return 0
        if header[:4] == b"data":
            return begin + length
        # chunks begin at multiples of 8
        file.seek(begin + length + -length % 8)
    return 0


def caf_end(file: BinaryIO) -> int:
    file.seek(8)
    while len(header := file.read(12)) == 12:
        length = int.from_bytes(header[4:], "big")
        # -1, where a writer cannot seek, is more than that
        if length >= UNKNOWN_LONG:
            return 0
        end = file.tell() + length
        if header[:4] == b"data":
            return end
        file.seek(end)
    return 0


def au_end(file: BinaryIO, order: str) -> int:
    begin, length = (int.from_bytes(file.read(4), order) for _ in range(2))
    return begin + length if length < UNKNOWN else 0


def nist_end(file: BinaryIO) -> int:
    second = re.match(rb"NIST_1A\r?\n *(\d{1,6})\s", b"NIST" + file.read(16))
    if second is None:
        return 0
    begin = int(second[1])
    file.seek(0)
    found = re.findall(rb"^(\w+) -\w+ (\d{1,18})\s", file.read(begin), re.MULTILINE)
    fields = {name: int(number) for name, number in found}
    count, width = (fields.get(b"sample_" + n, 0) for n in (b"count", b"n_bytes"))
    return begin + count * width * fields.get(b"channel_count", 1)


def ogg_end(file: BinaryIO) -> int:
    """By the last page, which says that it is the last."""
    size = file.seek(0, io.SEEK_END)
    begin = file.seek(max(0, size - OGG_TAIL))
    tail = file.read()
    if (at := tail.rfind(b"OggS\0")) < 0:
        return 0
    page = tail[at:]
    if len(page) < HEADER or not page[5] & LAST:
        return size + 1
    content = HEADER + page[26]
    return begin + at + content + sum(page[HEADER:content])


ENDS: dict[bytes, Callable[[BinaryIO], int]] = {
    b"RIFF": partial(chunked_end, order="little", samples=b"data"),
    b"RIFX": partial(chunked_end, order="big", samples=b"data"),
    b"RF64": partial(chunked_end, order="little", samples=b"data"),
    b"FORM": partial(chunked_end, order="big", samples=b"SSND"),
    b"riff": w64_end,
    b"caff": caf_end,
    b".snd": partial(au_end, order="big"),
    b"dns.": partial(au_end, order="little"),
    b"NIST": nist_end,
    b"OggS": ogg_end,
}
