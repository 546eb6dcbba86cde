"""From tokens in frames to words in seconds."""

from collections.abc import Iterable
from dataclasses import dataclass

SPACE, UNKNOWN = "<space>", "<unk>"
PIECE = "▁"  # what begins a word in BPE


@dataclass(frozen=True)
class Token:
    """A token that occupies frames [begin, end) of the encoder's output."""

    id: int
    begin: int
    end: int


@dataclass(frozen=True)
class Word:
    """A word, with its begin and its end in seconds."""

    text: str
    start: float
    end: float

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True)
class Clock:
    """Where frames of the encoder's output lie in a recording.

    Attributes:
        first: where the first frame begins, in seconds.
        period: seconds from frame to frame.
    """

    first: float
    period: float

    def seconds(self, frame: int) -> float:
        return self.first + frame * self.period

    def later(self, seconds: float) -> "Clock":
        """The clock of frames that lie so much later."""
        return Clock(self.first + seconds, self.period)


class Spelling:
    """How tokens make words.

    Args:
        token_type: "bpe", "char" or "word".
        token_list: the vocabulary. Characters without SPACE, as of Chinese, are a word
            each and are written without blanks.
        silent: tokens that are not written.
    """

    def __init__(
        self, token_type: str, token_list: list[str], silent: Iterable[int] = ()
    ):
        self.token_type, self.token_list = token_type, token_list
        self.silent = set(silent)
        spaced = token_type != "char" or SPACE in token_list
        self.blank = " " if spaced else ""

    def pieces(self, token: int) -> tuple[bool, str, bool]:
        """Whether a word ends before the token, its text, whether one ends after."""
        text = self.token_list[token]
        if self.token_type == "bpe":
            # as SentencePiece writes it
            if text == UNKNOWN:
                return True, "\u2047", True
            return text.startswith(PIECE), text.removeprefix(PIECE), False
        if self.token_type == "char" and self.blank:
            return (True, "", True) if text == SPACE else (False, text, False)
        return True, text, True

    def words(
        self, tokens: Iterable[Token], clock: Clock, seconds: float
    ) -> list[Word]:
        """Words of a recording of so many seconds, from where they begin in it on."""
        groups: list[list[tuple[str, Token]]] = [[]]
        for token in tokens:
            if token.id in self.silent:
                continue
            before, text, after = self.pieces(token.id)
            if before:
                groups.append([])
            if text:
                groups[-1].append((text, token))
            if after:
                groups.append([])
        return [
            Word(
                "".join(text for text, _ in group),
                min(max(0.0, clock.seconds(group[0][1].begin)), seconds),
                min(max(0.0, clock.seconds(group[-1][1].end)), seconds),
            )
            for group in groups
            if group
        ]

    def text(self, words: Iterable[Word]) -> str:
        return self.blank.join(word.text for word in words)
