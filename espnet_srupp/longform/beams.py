"""The prefixes that a CTC search keeps from frame to frame."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np

from espnet_srupp.longform.words import Token

NEVER = -math.inf


class LanguageModel(Protocol):
    """What a search asks of a language model."""

    def begin(self) -> "Expected":
        """What it expects of a recording's first token."""

    def follow(self, steps: Sequence[tuple["Expected", int]]) -> list["Expected"]:
        """What it expects after these tokens, each before what was expected of it."""


class Expected(Protocol):
    """Weighted log-probabilities (vocabulary,) of the next token."""

    scores: np.ndarray


class Prefix:
    """A sequence of tokens, linked to the one without its last.

    Attributes:
        expected: what the language model expects next, as long as the prefix is kept.
    """

    __slots__ = ("__weakref__", "expected", "last", "parent")

    def __init__(self, parent: "Prefix | None", last: int):
        self.parent, self.last = parent, last
        self.expected: Expected | None = None


class Place(NamedTuple):
    """A token of an alignment in frames [begin, end), linked to the one before."""

    before: "Place | None"
    id: int
    begin: int
    end: int


@dataclass(slots=True)
class State:
    """A prefix after some frames: log-probabilities that a blank or a token came last.

    Attributes:
        blank, token: summed over alignments.
        best_blank, best_token: of the best alignment alone.
        place_blank, place_token: the last token of that alignment.
    """

    blank: float = NEVER
    token: float = NEVER
    best_blank: float = NEVER
    best_token: float = NEVER
    place_blank: Place | None = None
    place_token: Place | None = None

    @property
    def total(self) -> float:
        return log_add(self.blank, self.token)

    @property
    def best(self) -> tuple[float, Place | None]:
        """The best alignment, whatever came last."""
        if self.best_blank >= self.best_token:
            return self.best_blank, self.place_blank
        return self.best_token, self.place_token

    def add_token(
        self, total: float, best: float, before: Place | None, id: int, span: range
    ) -> None:
        """Adds alignments that end with a token, the best of them in frames `span`."""
        self.token = log_add(self.token, total)
        if best > self.best_token:
            self.best_token = best
            self.place_token = Place(before, id, span.start, span.stop)


class Beams:
    """The prefixes that are kept, and the frames that were read."""

    def __init__(self, blank: int, beam: int, lm: LanguageModel | None = None):
        self.blank, self.beam, self.lm, self.frame = blank, beam, lm, 0
        # a prefix that left and comes back must be the one its extensions are linked to
        self.known: WeakValueDictionary = WeakValueDictionary()
        empty = self.named(None, blank)
        self.states = {empty: State(blank=0.0, best_blank=0.0)}
        if lm is not None:
            empty.expected = lm.begin()

    def advance(self, row: np.ndarray, ids: np.ndarray) -> None:
        """Reads a frame (vocabulary,); only `ids` are tried as new tokens."""
        made: defaultdict[tuple[Prefix | None, int], State] = defaultdict(State)
        for kept, state in self.states.items():
            self.stay(kept, state, row, made[kept.parent, kept.last])
        span = range(self.frame, self.frame + 1)
        for kept, id in self.extensions(row, ids):
            state, log_prob = self.states[kept], float(row[id])
            if self.lm is not None:
                log_prob += float(kept.expected.scores[id])
            # one like the last is a new one after a blank only
            after_blank = state.blank, state.best_blank, state.place_blank
            after_any = state.total, *state.best
            total, best, before = after_blank if id == kept.last else after_any
            total, best = total + log_prob, best + log_prob
            made[kept, id].add_token(total, best, before, id, span)
        best = nlargest(self.beam, made.items(), lambda item: item[1].total)
        before, self.states = self.states, {self.named(*place): s for place, s in best}
        if self.lm is not None:
            self.ask(before)
        self.frame += 1

    def extensions(
        self, row: np.ndarray, ids: np.ndarray
    ) -> Iterable[tuple[Prefix, int]]:
        """Kept prefixes and new tokens of theirs, all that could be kept then."""
        kept = list(self.states)
        states = self.states.values()
        scores = row[ids]
        if self.lm is not None:
            scores = scores + np.stack([each.expected.scores for each in kept])[:, ids]
        total = np.array([[state.total] for state in states])
        blank = np.array([[state.blank] for state in states])
        last = np.array([[each.last] for each in kept])
        scores = (np.where(last == ids, blank, total) + scores).ravel()
        best = np.arange(len(scores))
        if len(scores) > self.beam:
            best = scores.argpartition(-self.beam)[-self.beam :]
        found = [(kept[i // len(ids)], int(ids[i % len(ids)])) for i in best.tolist()]
        # what others of them are as well
        found += [(e.parent, e.last) for e in kept if e.parent in self.states]
        return dict.fromkeys(found)

    def ask(self, before: Iterable[Prefix]) -> None:
        """Lets the language model follow what is kept now and was not `before`."""
        new = [each for each in self.states if each.expected is None]
        steps = [(each.parent.expected, each.last) for each in new]
        for each, expected in zip(new, self.lm.follow(steps), strict=True):
            each.expected = expected
        for each in before:
            if each not in self.states:
                each.expected = None

    def stay(self, kept: Prefix, state: State, row: np.ndarray, new: State) -> None:
        """A blank, or the last token once more."""
        blank = float(row[self.blank])
        best, place = state.best
        new.blank = state.total + blank
        new.best_blank, new.place_blank = best + blank, place
        if (last := state.place_token) is not None:
            again = float(row[kept.last])
            span = range(last.begin, self.frame + 1)
            best = state.best_token + again
            new.add_token(state.token + again, best, last.before, kept.last, span)

    def named(self, parent: Prefix | None, last: int) -> Prefix:
        """The prefix, the same object as long as anything is linked to it."""
        name = (id(parent), last)
        if (found := self.known.get(name)) is None:
            found = self.known[name] = Prefix(parent, last)
        return found

    def tokens(self) -> list[Token]:
        """The best prefix."""
        _, place = max(self.states.values(), key=lambda state: state.total).best
        found = []
        while place is not None:
            found.append(Token(place.id, place.begin, place.end))
            place = place.before
        return found[::-1]


def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b))"""
    if a < b:
        a, b = b, a
    return a if b == NEVER else a + math.log1p(math.exp(b - a))
