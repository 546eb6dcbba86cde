"""A trained language model of ESPnet, which has a say in a search."""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet2.lm.seq_rnn_lm import SequentialRNNLM
from espnet2.tasks.lm import LMTask
from torch import nn

from espnet_srupp.longform.loading import Files, constructing, fill, located
from espnet_srupp.longform.search_options import lm_files
from espnet_srupp.recipe import config as yaml_file
from espnet_srupp.recipe.errors import RecipeError

# tokens after which a sentence ends in any case, as attention to all of them takes time
LONGEST = 500


def load(lm: Path, tokens: Sequence[str]) -> nn.Module:
    """What ESPnet's search calls a scorer.

    Args:
        lm: the folder of its experiment, or a checkpoint in it.
        tokens: those of the model that it goes with.

    Raises:
        RecipeError: files are missing or do not fit each other, or it has other tokens.
    """
    found = Files(*lm_files(lm), archived=False)
    given: dict[str, Any] = yaml_file.load(found.config) | {"init": None}
    if "lm" not in given:
        raise RecipeError(
            f"{found.config} is not of a language model: give another one by --lm"
        )
    if isinstance(given.get("token_list"), str):
        given["token_list"] = located(given["token_list"], found)
    options = argparse.Namespace(**given)
    with constructing(found):
        # which puts a list in the place of a file's name
        model = LMTask.build_model(options)
    if list(options.token_list) != list(tokens):
        raise RecipeError(
            f"{found.config} has other tokens than the model that transcribes: give "
            "a language model of its tokens by --lm"
        )
    fill(model, found, "--lm")
    return model.lm


@contextmanager
def without_onednn() -> Iterator[None]:
    """Spares an LSTM of few rows what oneDNN makes of its weights at each call."""
    # torch.backends.mkldnn.flags sets TF32 too, which torch 2.11 warns about
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


@dataclass(frozen=True)
class Sentence:
    """A sentence so far, and what may come next.

    Attributes:
        scores: weighted log-probabilities of tokens (vocabulary,).
        again: (vocabulary,) bool, whether a token is rather the first of another one.
        tokens: those so far; of an RNN the last one, as its state has the rest.
        state: of the language model after them.
    """

    scores: np.ndarray
    again: np.ndarray
    tokens: list[int]
    state: Any


class Sentences:
    """A language model of sentences, for recordings that hold any number of them.

    A sentence may end before any token y: p(y) = p(y | s) + p(eos | s) p(y | sos), s
    being the sentence so far. The greater term decides whether y goes on with s.

    Args:
        lm: of ESPnet, in evaluation mode.
        marks: ids of the tokens sos and eos.
        weight: of its log-probabilities.
    """

    def __init__(self, lm: nn.Module, marks: tuple[int, int], weight: float):
        self.lm, self.weight = lm, weight
        sos, self.eos = marks
        self.remembers = isinstance(lm, SequentialRNNLM)
        self.tokens = [sos]
        ((self.log_probs, self.state),) = self.step([self.tokens], [None])

    def begin(self) -> Sentence:
        """The empty one, before a recording's first token."""
        return self.sentence(self.tokens, self.log_probs, self.state)

    def follow(self, steps: Sequence[tuple[Sentence, int]]) -> list[Sentence]:
        """What each has become after a token."""
        begun = [self.goes_on(before, token) for before, token in steps]
        # a batch has sentences of one length
        groups = defaultdict(list)
        for number, (tokens, _) in enumerate(begun):
            groups[len(tokens)].append(number)
        found = {}
        for numbers in groups.values():
            some, states = zip(*(begun[n] for n in numbers), strict=True)
            made = zip(numbers, some, self.step(some, states), strict=True)
            for number, tokens, (log_probs, state) in made:
                found[number] = self.sentence(tokens, log_probs, state)
        return [found[number] for number in range(len(steps))]

    def goes_on(self, before: Sentence, token: int) -> tuple[list[int], Any]:
        """The tokens of the sentence that one is the last of, and the state before."""
        tokens, state = before.tokens, before.state
        if before.again[token] or len(tokens) > LONGEST:
            tokens, state = self.tokens, self.state
        return ([] if self.remembers else tokens) + [token], state

    @torch.inference_mode()
    def step(
        self, sentences: Sequence[list[int]], states: Sequence[Any]
    ) -> list[tuple[np.ndarray, Any]]:
        """Log-probabilities (vocabulary,) after each, and the state there."""
        ys = torch.tensor(sentences, device=next(self.lm.parameters()).device)
        with without_onednn():
            log_probs, states = self.lm.batch_score(ys, list(states), ys)
        return [*zip(log_probs.double().cpu().numpy(), states, strict=True)]

    def sentence(
        self, tokens: list[int], log_probs: np.ndarray, state: Any
    ) -> Sentence:
        anew = log_probs[self.eos] + self.log_probs
        scores = self.weight * np.logaddexp(log_probs, anew)
        return Sentence(scores, anew > log_probs, tokens, state)
