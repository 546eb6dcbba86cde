"""What the lines of a data directory may be written with."""

import re
from collections.abc import Iterable
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import Faults, note

BLANKS = re.compile("[\t \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
# control characters, of which one program or another ends a line at some, and what a
# wrong encoding leaves; tabs are blanks
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd]")
LONGEST_ID = 200  # bytes; a file's name may have 255, with what is put around the id


def shown(name: str) -> str:
    """A name of the file system, bytes that are not UTF-8 spelt out."""
    return name.encode("utf-8", "backslashreplace").decode()


def check_utf8(names: Iterable[str]) -> None:
    """Raises RecipeError where one is not UTF-8, as files could not hold it."""
    for name in names:
        if shown(name) != name:
            raise RecipeError(f"the name {shown(name)} is not UTF-8: rename it")


def single_blanks(text: dict[str, str]) -> dict[str, str]:
    """Transcripts with one space between words, whatever was there and around them.

    ESPnet would take other blanks, or two of them, for characters.
    """
    return {key: BLANKS.sub(" ", value).strip(" ") for key, value in text.items()}


def check_letters(
    tables: dict[str, dict[str, str]], path: Path, faults: Faults | None
) -> None:
    """Checks that ids are words and that no line holds what would end or spoil it.

    Args:
        tables: what files hold, by their names.
        path: the data directory they are in, for errors.
        faults: takes what is wrong; without it the first fault is raised.
    """
    for name, table in tables.items():
        for key, value in table.items():
            ids = (key, value) if name == "utt2spk" else (key,)
            for word in ids:
                if word.split() != [word] or "/" in word:
                    sentence = (
                        f"{path}: the id '{word}' is empty or holds a blank or a "
                        "slash: rename it"
                    )
                    note(faults, key, "id", sentence)
                check_length(word, key, path, faults)
            if found := CONTROL.search(f"{key} {value}"):
                sentence = (
                    f"{path / name}: {key!a} holds the character U+{ord(found[0]):04X},"
                    " which is no part of a text or name: remove it"
                )
                note(faults, key, "control character", sentence)


def check_length(word: str, key: str, path: Path, faults: Faults | None) -> None:
    """Checks that files can be called by the id `word`; if not, `key` is at fault."""
    if len(word.encode()) > LONGEST_ID:
        sentence = (
            f"{path}: the id '{word[:20]}...' has more than {LONGEST_ID} bytes, too "
            "many for a file's name: shorten it"
        )
        note(faults, key, "id", sentence)


def check_wav(wav: dict[str, str], path: Path, faults: Faults | None = None) -> None:
    """Checks that the wav.scp at `path` names files, and with which letters."""
    for key, value in wav.items():
        if value.endswith("|"):
            sentence = (
                f"{path}: {key} is a command ('{value}'), which is not run here: write "
                "its output to a file and give its path"
            )
            note(faults, key, "command", sentence)
    check_letters({path.name: wav}, path.parent, faults)
    for key, value in wav.items():
        if value != value.strip():
            sentence = (
                f"{path}: the path '{value}' of {key} begins or ends with a blank: "
                "rename the file"
            )
            note(faults, key, "name", sentence)
