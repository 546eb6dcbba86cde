"""Fonts for transcripts in any script."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from matplotlib import font_manager, rc_context

FIRST = "DejaVu Sans"
# has a box for every letter there is
BOXES = "Last Resort"


@contextmanager
def having(text: str) -> Iterator[None]:
    """Draws in fonts that together have the letters of the text.

    Letters that no font of this machine has become boxes, which is told.
    """
    chosen, missing = families(text)
    if missing:
        print(
            f"no font here has {''.join(sorted(missing)[:10])}, so pictures show "
            "boxes: install one that does, such as Debian's fonts-noto-cjk for Chinese",
            file=sys.stderr,
        )
    with rc_context({"font.family": chosen}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def families(text: str) -> tuple[list[str], set[str]]:
    """The usual font and those that have what it lacks, and what all of them lack."""
    chosen = [FIRST]
    missing = lacking(
        font_manager.findfont(FIRST), {c for c in text if c.isprintable()}
    )
    for font in sorted(font_manager.fontManager.ttflist, key=lambda font: font.fname):
        if not missing:
            break
        # matplotlib lists what it has once found
        if font.name.startswith(BOXES) or not os.path.exists(font.fname):
            continue
        left = lacking(font.fname, missing)
        if left < missing:
            chosen.append(font.name)
            missing = left
    return chosen, missing


def lacking(file: str, letters: set[str]) -> set[str]:
    there = font_manager.get_font(file).get_charmap()
    return {letter for letter in letters if ord(letter) not in there}
