"""How many tokens and sentences are right, and what is wrong with the others."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Counts:
    """How many of each kind; they add up over speakers and sets.

    Attributes:
        sentences, tokens: of the reference.
        correct, substituted, deleted, inserted: tokens.
        wrong: sentences with an error.
    """

    sentences: int = 0
    tokens: int = 0
    correct: int = 0
    substituted: int = 0
    deleted: int = 0
    inserted: int = 0
    wrong: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        names = [item.name for item in fields(self)]
        return Counts(*(getattr(self, n) + getattr(other, n) for n in names))

    @property
    def errors(self) -> int:
        return self.substituted + self.deleted + self.inserted

    def row(self) -> list[str]:
        """sclite's columns: # Snt, # Wrd, then Corr Sub Del Ins Err S.Err in %."""
        parts = (self.correct, self.substituted, self.deleted, self.inserted)
        rates = [rate(part, self.tokens) for part in (*parts, self.errors)]
        return [
            str(self.sentences),
            str(self.tokens),
            *rates,
            rate(self.wrong, self.sentences),
        ]


def rate(part: int, whole: int) -> str:
    """Percent with one decimal, rounded half up as sclite does; 0.0 of nothing."""
    return f"{int(1000 * part / whole + 0.5) / 10 if whole else 0:.1f}"
