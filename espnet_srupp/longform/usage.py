"""longform.jsonl: what decoding an utterance took, one JSON object a line.

    {"utterance": "id", "audio_seconds": 63.1, "computing_seconds": 3.2,
     "peak_bytes": 412000000}

A decoder writes it beside its `text`. `peak_bytes` is the largest memory in use while
decoding the utterance, of the GPU if that decodes, or null where the decoder cannot
tell.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_file

NAME = "longform.jsonl"
# what reading damaged JSON raises, here and in the modules that import this
DAMAGES = (ValueError, TypeError, LookupError, AttributeError, OverflowError)
DAMAGES += (RecursionError,)


@dataclass(frozen=True)
class Usage:
    """One line of the file."""

    audio_seconds: float
    computing_seconds: float
    peak_bytes: int | None


def write(path: Path, used: Mapping[str, Usage]) -> None:
    """Writes the file."""
    with atomic_file(path) as file:
        for utterance, usage in used.items():
            line = {"utterance": utterance, **asdict(usage)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


class PeakMemory:
    """The largest resident memory of this process since it was made.

    Linux alone can tell, and not in every container.
    """

    STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

    def __init__(self):
        try:
            self.RESET.write_text("5")
            self.known = True
        except OSError:
            self.known = False

    def bytes(self) -> int | None:
        """None where it is not known."""
        if not self.known:
            return None
        found = re.search(r"VmHWM:\s+(\d+) kB", self.STATUS.read_text())
        return 1024 * int(found[1])


def read(path: Path) -> dict[str, Usage]:
    """Reads the file, by utterance; of an utterance that is there twice the last line.

    Args:
        path: of the file; where it is missing, nothing was logged.

    Raises:
        RecipeError: a line is not as above; names it.
    """
    found: dict[str, Usage] = {}
    if not path.exists():
        return found
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            given = json.loads(line.decode("utf-8"))
            peak = given["peak_bytes"]
            used = Usage(
                float(given["audio_seconds"]),
                float(given["computing_seconds"]),
                None if peak is None else int(peak),
            )
            if not (0 < used.audio_seconds < inf and 0 <= used.computing_seconds < inf):
                raise ValueError(used)
            found[given["utterance"]] = used
        except DAMAGES as error:
            raise RecipeError(
                f"{path} line {number} does not tell utterance, audio_seconds, "
                "computing_seconds and peak_bytes: correct or remove the file"
            ) from error
    return found


def real_time_factor(used: list[Usage | None]) -> float | None:
    """Seconds of computing per second of audio; None if not all of it was logged."""
    if None in used:
        return None
    return sum(u.computing_seconds for u in used) / sum(u.audio_seconds for u in used)


def peak(used: list[Usage | None]) -> int | None:
    """The largest memory in bytes; None if not all of it was logged."""
    if None in used or any(u.peak_bytes is None for u in used):
        return None
    return max(u.peak_bytes for u in used)
