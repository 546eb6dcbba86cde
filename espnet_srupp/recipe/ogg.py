"""Whether the pages of an Ogg file are as they were written (RFC 3533, section 6).

libsndfile leaves out a page that is not, and says nothing.
"""

import io
import zlib
from typing import BinaryIO

from espnet_srupp.recipe.files import once

HEADER = 27  # bytes of a page, before the lengths of its segments
SUM = slice(22, 26)  # counted as zeros
FIRST, LAST = 2, 4
ALL = 0xFFFFFFFF
MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def damaged(path: str) -> bool:
    """Whether a page has another sum than it says, or something else is in between.

    What follows the last page does not matter, nor that a file ends within a page.
    """
    with open(path, "rb") as file:
        return not whole(file)


def whole(file: BinaryIO) -> bool:
    last = 0
    while len(page := file.read(HEADER)) == HEADER:
        if not page.startswith(b"OggS\0"):
            return bool(last)
        last = page[5] & LAST
        lengths = file.read(page[26])
        page += lengths + (content := file.read(sum(lengths)))
        if len(content) < sum(lengths):
            return True
        if checksum(page) != int.from_bytes(page[SUM], "little"):
            return False
    return True


# a long recording may be opened for each of its segments
@once
def chained(path: str) -> bool:
    """Whether a stream follows the end of another; libsndfile reads the first."""
    last = 0
    with open(path, "rb") as file:
        while len(page := file.read(HEADER)) == HEADER and page.startswith(b"OggS\0"):
            if last and page[5] & FIRST:
                return True
            last |= page[5] & LAST
            file.seek(sum(file.read(page[26])), io.SEEK_CUR)
    return False


def checksum(page: bytes) -> int:
    page = page[: SUM.start] + bytes(4) + page[SUM.stop :]
    # zlib's polynomial is the same, but it mirrors bits, and inverts at both ends
    found = zlib.crc32(page.translate(MIRRORED), ALL) ^ ALL
    return int(f"{found:032b}"[::-1], 2)
