"""What is wrong with utterances, and what becomes of a set that holds such ones."""

from collections import Counter
from pathlib import Path

from espnet_srupp.recipe.errors import DataError, RecipeError
from espnet_srupp.recipe.progress import say

Faults = dict[str, DataError]
"""What is wrong with each utterance, by its id."""

# a larger part of a set is no accident, and what is left would be another corpus
LIMIT = 0.1


def note(faults: Faults | None, key: str, kind: str, sentence: str) -> None:
    """Keeps the first fault of each id, or raises it where none are kept."""
    error = DataError(sentence, kind)
    if faults is None:
        raise error
    faults.setdefault(key, error)


def settle(faults: Faults, kept: int, source: Path, strict: bool) -> None:
    """Says what is left out of a set, or stops.

    Args:
        faults: what is wrong with each utterance that is left out.
        kept: how many are left.
        source: the set.
        strict: stop at any fault.

    Raises:
        RecipeError: there is a fault and `strict` is set, or more than a tenth of the
            utterances have one. Gives the first of them in full.
    """
    refuse(faults, kept, source, strict)
    if faults:
        some = f"{len(faults)} of {kept + len(faults)} utterances of {source}"
        say(f"  {some} left out: {counted(faults)}")


def refuse(faults: Faults, kept: int, source: Path, strict: bool) -> None:
    """Stops where `settle` would, as soon as the faults are known."""
    total = kept + len(faults)
    if faults and (strict or len(faults) > LIMIT * total):
        why = "" if strict else "more than a tenth, too many to leave out: "
        more = " (--check lists them all)" if len(faults) > 1 else ""
        raise RecipeError(
            f"{len(faults)} of {total} utterances of {source} cannot be used, {why}"
            f"{next(iter(faults.values()))}{more}"
        )


def counted(faults: Faults) -> str:
    """How many there are of each kind, as "2 truncated, 1 silent"."""
    kinds = Counter(fault.kind for fault in faults.values())
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
