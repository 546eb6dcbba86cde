"""Errors and repetitions in one hypothesis, counted by words and by characters."""

from dataclasses import dataclass

import numpy as np

from espnet_srupp.recipe import scoring
from espnet_srupp.recipe.counts import Counts

UNITS = {"wer": str.split, "cer": scoring.characters}
# a loop says again at least so many tokens, and at most so many in each turn
LEAST, PERIODS = 3, 200


@dataclass(frozen=True)
class Pair:
    """What to compare.

    Attributes:
        reference, hypothesis: texts; the hypothesis may be empty.
        case: whether upper and lower case differ.
    """

    reference: str
    hypothesis: str
    case: bool


@dataclass(frozen=True)
class Tally:
    """What was counted; adds up over utterances.

    Attributes:
        counts: of the alignment.
        repeated: tokens of the hypothesis, as `repeated` counts them.
    """

    counts: Counts = Counts()
    repeated: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.counts + other.counts, self.repeated + other.repeated)


def tally(pair: Pair) -> dict[str, Tally]:
    """Counts one utterance by each of UNITS."""
    result = {}
    for unit, split in UNITS.items():
        reference, hypothesis = (
            split(text) if pair.case else [token.lower() for token in split(text)]
            for text in (pair.reference, pair.hypothesis)
        )
        (chunks,) = scoring.align({"": (reference, hypothesis)}, case=True).alignments
        result[unit] = Tally(
            scoring.count(chunks, len(reference)), repeated(reference, hypothesis)
        )
    return result


def repeated(reference: list[str], hypothesis: list[str]) -> int:
    """How many more tokens of a hypothesis than of the reference are in loops."""
    return max(0, looped(hypothesis) - looped(reference))


def looped(tokens: list[str]) -> int:
    """How many tokens say again, at once and whole, what stands right before them.

    What comes again later does not count, as it does by chance in any long text.
    """
    known: dict[str, int] = {}
    # an array of texts would be as wide as the longest of them
    codes = np.array([known.setdefault(token, len(known)) for token in tokens], int)
    again = np.zeros(len(codes), bool)
    for period in range(1, min(PERIODS, len(codes) // 2) + 1):
        same = codes[period:] == codes[:-period]
        edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
        stretches = edges.reshape(-1, 2)
        whole = np.ptp(stretches, axis=1) >= max(period, LEAST)
        for begin, end in stretches[whole]:
            again[period + begin : period + end] = True
    return int(again.sum())
