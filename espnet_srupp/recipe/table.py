"""A table of Kaldi's: lines of "key value", sorted by key in the C locale."""

import re
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import Faults, note

# a key, and what comes after it
LINE = re.compile("([^ \t]*)[ \t]*(.*)")
STAGE_1 = "--stage 1 makes those of the recipe's own corpus"


def read_table(path: Path, faults: Faults | None = None) -> dict[str, str]:
    """Reads lines of "key value", sorted by key in the C locale, each key once."""
    table: dict[str, str] = {}
    last, before = "", len(faults or ())
    lines = read_lines(path)
    if not lines:
        raise RecipeError(f"{path} is empty: fill it in, or make it again ({STAGE_1})")
    for number, line in enumerate(lines, 1):
        where = f"{path} line {number}"
        text = line.decode("utf-8", "backslashreplace").strip()
        key, value = LINE.fullmatch(text).groups()
        if problem := fault_of_line(path.name, line, key, value):
            key = key.removeprefix("\ufeff") or where
            note(faults, key, problem[0], f"{where}{problem[1]}")
            continue
        if key in table:
            remedy = f"{where}: {key} is there twice: remove or rename one"
            note(faults, key, "twice", remedy)
            continue
        # code points and UTF-8 bytes have the same order, which is the C locale's
        if key < last:
            if faults and len(faults) > before:
                # a broken line before this one is the likelier cause
                raise list(faults.values())[before]
            raise RecipeError(
                f"{where}: {key} comes after {last}: sort the files of {path.parent} "
                "with LC_ALL=C sort"
            )
        table[key] = value
        last = key
    return table


def read_lines(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise RecipeError(
            f"{path} is missing: write it, or make it ({STAGE_1})"
        ) from None
    return lines[:-1] if lines[-1] == b"" else lines


def fault_of_line(
    table: str, line: bytes, key: str, value: str
) -> tuple[str, str] | None:
    """What is wrong with a line that is not yet read: its kind and a sentence."""
    if line.decode("utf-8", "ignore").encode() != line:
        return "not UTF-8", " is not UTF-8: convert it with iconv"
    if key.startswith("\ufeff"):
        return "control character", " begins with a byte order mark: save it without"
    if not key:
        return "empty line", " is empty: remove it"
    if not value:
        what = "an empty transcript" if table == "text" else "nothing after it"
        return "empty line", f": {key} has {what}: fill it in or remove {key}"
    return None


def write_table(table: dict, path: Path) -> None:
    lines = (f"{key} {value}\n" for key, value in sorted(table.items()))
    path.write_text("".join(lines), encoding="utf-8")
