"""From tokens in frames to words in seconds."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

SPACE, UNKNOWN = "<space>", "<unk>"
PIECE = "▁"  # what begins a word in BPE
# of scripts that are written without blanks: Thai to Lao, Burmese, Khmer, kana, Chinese
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)
# of these, what is written before or after the consonant it belongs to: vowels of Thai
# and Lao, what stacks the next consonant in Burmese and Khmer; marks tell themselves
LEADING = "\u0e40-\u0e44\u0ec0-\u0ec4\u1039\u17d2"
TRAILING = "\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3"
BOUND = re.compile(f"[{LEADING}].|.[{TRAILING}]")


@dataclass(frozen=True)
class Token:
    """A token that occupies frames [begin, end) of the encoder's output."""

    id: int
    begin: int
    end: int


@dataclass(frozen=True)
class Word:
    """A word, with its begin and its end in seconds.

    Attributes:
        glued: no blank stands before it, as in scripts that are written without.
    """

    text: str
    start: float
    end: float
    glued: bool = False

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
        return [
            Word(
                "".join(text for text, _ in group),
                min(max(0.0, clock.seconds(group[0][1].begin)), seconds),
                min(max(0.0, clock.seconds(group[-1][1].end)), seconds),
                glued,
            )
            for glued, group in self.groups(tokens)
            if group
        ]

    def groups(
        self, tokens: Iterable[Token]
    ) -> list[tuple[bool, list[tuple[str, Token]]]]:
        """Whether no blank stands before a word, and its tokens with their texts."""
        found: list[tuple[bool, list[tuple[str, Token]]]] = [(False, [])]
        for token in tokens:
            if token.id in self.silent:
                continue
            before, text, after = self.pieces(token.id)
            _, last = found[-1]
            if before:
                found.append((False, []))
            elif last and parts(last[-1][0], text):
                found.append((True, []))
            if text:
                found[-1][1].append((text, token))
            if after:
                found.append((False, []))
        return found


def text_of(words: Iterable[Word], blank: str) -> str:
    """What words make, with blanks between those that are not glued."""
    text = ""
    for word in words:
        text += word.text if word.glued or not text else blank + word.text
    return text


def parts(before: str, after: str) -> bool:
    """Whether a word may end between two tokens that have no blank between them.

    A text without blanks would be a single word else, as long as the recording.
    """
    near = before[-1:] + after[:1]
    return (
        len(near) == 2
        and UNSPACED.search(near) is not None
        # no marks, punctuation, or signs of repetition and length
        and unicodedata.category(near[1]) in ("Lo", "Lu", "Ll", "Nd")
        and not BOUND.fullmatch(near)
    )
