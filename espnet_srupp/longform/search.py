"""CTC search over a whole recording, in one pass from its first frame to its last."""

import math
from collections import defaultdict
from collections.abc import Iterable
from heapq import nlargest
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from espnet_srupp.longform.words import Token

NEVER = -math.inf


def greedy(log_probs: Iterable[Tensor], blank: int) -> list[Token]:
    """The best token of each frame; equal ones in a row are one token.

    Args:
        log_probs: (rows, vocabulary) each, the frames in order.
        blank: id of CTC's blank.
    """
    best = [tile.argmax(-1).cpu() for tile in log_probs]
    return tokens(torch.cat(best), blank) if best else []


def tokens(labels: Tensor, blank: int) -> list[Token]:
    """What an alignment (T',) spells."""
    ids, counts = torch.unique_consecutive(labels, return_counts=True)
    ends = counts.cumsum(0).tolist()
    return [
        Token(id, end - count, end)
        for id, count, end in zip(ids.tolist(), counts.tolist(), ends, strict=True)
        if id != blank
    ]


def prefix(log_probs: Iterable[Tensor], blank: int, beam: int) -> list[Token]:
    """The most probable sequence of tokens by CTC prefix beam search.

    Hannun et al. 2014, arXiv 1408.2873, without a language model. After each frame the
    `beam` most probable prefixes are kept, and that is the only pruning: no frame is
    passed by, and the tokens that are not tried are those that would not be kept. Time
    is linear in the frames, memory in the tokens.

    Args:
        log_probs: (rows, vocabulary) each, the frames in order.
        blank: id of CTC's blank.
        beam: prefixes to keep, at least 1.

    Returns:
        The tokens, each in the frames where the best of their alignments has it.
    """
    beams = Beams(blank, beam)
    for tile in log_probs:
        others = tile.clone()
        others[:, blank] = NEVER
        # for each prefix, these hold as many new tokens as there is room for, and its
        # last token, which is less probable as a new one
        best = others.topk(min(beam + 1, tile.shape[1])).indices.tolist()
        for row, ids in zip(tile.double().cpu().numpy(), best, strict=True):
            beams.advance(row, [id for id in ids if id != blank])
    return beams.tokens()


class Prefix:
    """A sequence of tokens, linked to the one without its last."""

    __slots__ = ("__weakref__", "last", "parent")

    def __init__(self, parent: "Prefix | None", last: int):
        self.parent, self.last = parent, last


class Place(NamedTuple):
    """A token of an alignment in frames [begin, end), linked to the one before."""

    before: "Place | None"
    id: int
    begin: int
    end: int


class State:
    """A prefix after some frames: log-probabilities that a blank or a token came last.

    Attributes:
        blank, token: summed over alignments.
        best_blank, best_token: of the best alignment alone.
        place_blank, place_token: the last token of that alignment.
    """

    __slots__ = (
        *("blank", "token", "best_blank", "best_token"),
        *("place_blank", "place_token"),
    )

    def __init__(self, blank: float = NEVER):
        self.blank = self.best_blank = blank
        self.token = self.best_token = NEVER
        self.place_blank: Place | None = None
        self.place_token: Place | None = None

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

    def __init__(self, blank: int, beam: int):
        self.blank, self.beam, self.frame = blank, beam, 0
        # a prefix that left and comes back must be the one its extensions are linked to
        self.known: WeakValueDictionary = WeakValueDictionary()
        self.states = {self.named(None, blank): State(0.0)}

    def advance(self, row: np.ndarray, ids: list[int]) -> None:
        """Reads a frame (vocabulary,); only `ids` are tried as new tokens."""
        # of prefixes that are kept, those that extend others of them
        links: dict[Prefix | None, list[int]] = {}
        for kept in self.states:
            links.setdefault(kept.parent, []).append(kept.last)
        made: defaultdict[tuple[Prefix | None, int], State] = defaultdict(State)
        span = range(self.frame, self.frame + 1)
        for kept, state in self.states.items():
            self.stay(kept, state, row, made[kept.parent, kept.last])
            after_any = state.total, *state.best
            after_blank = state.blank, state.best_blank, state.place_blank
            for id in {*ids, *links.get(kept, ())}:
                # one like the last is a new one after a blank only
                total, best, before = after_blank if id == kept.last else after_any
                log_prob = float(row[id])
                total, best = total + log_prob, best + log_prob
                made[kept, id].add_token(total, best, before, id, span)
        best = nlargest(self.beam, made.items(), lambda item: item[1].total)
        self.states = {self.named(*place): state for place, state in best}
        self.frame += 1

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
