"""longform.jsonl: what decoding an utterance took, one JSON object a line.

    {"utterance": "id", "audio_seconds": 63.1, "computing_seconds": 3.2,
     "peak_bytes": 412000000}

A decoder writes it beside its `text`. `peak_bytes` is the largest memory in use while
decoding the utterance, or null where the decoder cannot tell.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError

NAME = "longform.jsonl"


@dataclass(frozen=True)
class Usage:
    """One line of the file."""

    audio_seconds: float
    computing_seconds: float
    peak_bytes: int | None


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
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            given = json.loads(line)
            peak = given["peak_bytes"]
            used = Usage(
                float(given["audio_seconds"]),
                float(given["computing_seconds"]),
                None if peak is None else int(peak),
            )
            if used.audio_seconds <= 0 or used.computing_seconds < 0:
                raise ValueError(used)
            found[given["utterance"]] = used
        except (ValueError, TypeError, KeyError) as error:
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
