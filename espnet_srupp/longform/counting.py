"""Errors and repetitions in one hypothesis, counted by words and by characters."""

from collections import Counter
from dataclasses import dataclass, field

from espnet_srupp.recipe import scoring
from espnet_srupp.recipe.counts import Counts

UNITS = {"wer": scoring.words, "cer": scoring.characters}


@dataclass(frozen=True)
class Pair:
    """What to compare.

    Attributes:
        reference, hypothesis: texts; the hypothesis may be empty.
        ngram: length of the n-grams to look for.
        case: whether upper and lower case differ.
    """

    reference: str
    hypothesis: str
    ngram: int
    case: bool


@dataclass(frozen=True)
class Tally:
    """What was counted; adds up over utterances.

    Attributes:
        counts: of the alignment.
        ngrams: of the hypothesis.
        repeated: those among them that `repeated` counts.
    """

    counts: Counts = field(default_factory=Counts)
    ngrams: int = 0
    repeated: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.counts + other.counts,
            self.ngrams + other.ngrams,
            self.repeated + other.repeated,
        )


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
            scoring.count(chunks, len(reference)),
            sum(ngrams(hypothesis, pair.ngram).values()),
            repeated(reference, hypothesis, pair.ngram),
        )
    return result


def ngrams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def repeated(reference: list[str], hypothesis: list[str], n: int) -> int:
    """How many n-grams of a hypothesis are one repetition too many.

    An n-gram that the hypothesis has h times and the reference r times adds
    max(0, h - max(1, r)): neither what was said again nor a single error counts, but
    every turn of a loop does.
    """
    said = ngrams(reference, n)
    found = ngrams(hypothesis, n)
    return sum(max(0, times - max(1, said[key])) for key, times in found.items())
