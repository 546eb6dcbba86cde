"""One recording after the other to its words, by a loaded model."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

from espnet_srupp.longform import search, waveform
from espnet_srupp.longform.beams import LanguageModel
from espnet_srupp.longform.loading import Files, load
from espnet_srupp.longform.model import Recogniser
from espnet_srupp.longform.sources import Source
from espnet_srupp.longform.transcript import Transcript
from espnet_srupp.longform.usage import PeakMemory, Usage
from espnet_srupp.longform.words import Word, text_of
from espnet_srupp.recipe.errors import RecipeError

# features (T, D), seconds of audio, and whom to tell the share done
Search = Callable[[Tensor, float, Callable[[float], None]], list[Word]]


class Decoder:
    """A model and a search.

    Args:
        found: files of the model.
        given: options of `transcribe`.

    Raises:
        RecipeError: the model or the device cannot do it.
    """

    def __init__(self, found: Files, given: argparse.Namespace):
        has_cuda = torch.cuda.is_available()
        if given.device == "cuda" and not has_cuda:
            raise RecipeError("--device cuda: torch finds none here, give --device cpu")
        device = given.device or ("cuda" if has_cuda else "cpu")
        self.peak_memory = GPUMemory if device == "cuda" else PeakMemory
        self.recogniser = load(found, device, getattr(torch, given.dtype))
        if given.search == "joint":
            self.search: Search = joint(self.recogniser, given)
        else:
            self.search = by_ctc(self.recogniser, given)
        # what is compiled or loaded at first use is no part of a recording's time
        second = np.zeros(self.recogniser.rate, np.float32)
        with torch.inference_mode():
            self.recogniser.encode(self.recogniser.features([second]))

    def transcribe(
        self,
        source: Source,
        seconds: float,
        settings: dict,
        told: Callable[[float], None],
    ) -> Transcript:
        """Decodes a recording of so many seconds; `told` hears the share done.

        Raises:
            RecipeError: its audio is bad, or memory is short.
        """
        peak, begun = self.peak_memory(), time.perf_counter()
        try:
            with torch.inference_mode():
                samples = waveform.blocks(source, self.recogniser.rate)
                xs = self.recogniser.features(samples)
                words = self.search(xs, seconds, told)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise RecipeError(
                f"{source} of {seconds:.0f} s needs more memory than there is: cut it, "
                "or take a model whose memory grows linearly, as that of SRU++ does"
            ) from error
        used = Usage(seconds, time.perf_counter() - begun, peak.bytes())
        blank = self.recogniser.spelling.blank
        return Transcript(
            source.name, text_of(words, blank), words, blank, used, settings
        )


class GPUMemory:
    """The largest memory of the GPU that torch has used since it was made."""

    def __init__(self):
        torch.cuda.reset_peak_memory_stats()

    def bytes(self) -> int:
        return torch.cuda.max_memory_allocated()


def out_of_memory(error: Exception) -> bool:
    # torch has a class of its own for it on a GPU alone
    known = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    return known or "allocate memory" in str(error)


def by_ctc(recogniser: Recogniser, given: argparse.Namespace) -> Search:
    """A search that finds tokens in CTC's probabilities of the whole recording."""
    model = recogniser.espnet
    # of the time that a recording takes, about
    encoding, find = 1.0, search.greedy
    if given.search == "prefix":
        lm = sentences(model, given) if given.lm else None
        encoding, find = 0.5, partial(search.prefix, beam=given.beam_size, lm=lm)

    def words(xs: Tensor, seconds: float, told: Callable) -> list[Word]:
        with telling(model.encoder, lambda share: told(encoding * share)):
            xs, clock = recogniser.encode(xs)
        tiles = passing(
            recogniser.log_probs(xs),
            lambda frames: told(encoding + (1 - encoding) * frames / max(1, len(xs))),
        )
        tokens = find(tiles, model.blank_id)
        return recogniser.spelling.words(tokens, clock, seconds)

    return words


def passing(tiles: Iterable[Tensor], told: Callable[[int], None]) -> Iterator[Tensor]:
    """Tells how many rows were taken, once the next ones are asked for."""
    frames = 0
    for tile in tiles:
        yield tile
        frames += len(tile)
        told(frames)


@contextmanager
def telling(encoder: torch.nn.Module, told: Callable[[float], None]) -> Iterator[None]:
    """Tells the share of the encoder's layers that has run."""
    layers = list(getattr(encoder, "encoders", ()))

    def tell(layer: torch.nn.Module, *_: object) -> None:
        told((layers.index(layer) + 1) / len(layers))

    hooks = [layer.register_forward_hook(tell) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def sentences(model: torch.nn.Module, given: argparse.Namespace) -> LanguageModel:
    # seconds to import
    from espnet_srupp.longform import language_model

    lm = language_model.load(given.lm, model.token_list)
    lm.to(next(model.parameters()).device).eval()
    return language_model.Sentences(lm, (model.sos, model.eos), given.lm_weight)


def joint(recogniser: Recogniser, given: argparse.Namespace) -> Search:
    # seconds to import
    from espnet_srupp.longform import language_model, windows

    model = recogniser.espnet
    if model.decoder is None or model.use_transducer_decoder:
        raise RecipeError(
            f"{given.model} has no decoder with attention, which --search joint needs: "
            "give --search prefix"
        )
    lm = language_model.load(given.lm, model.token_list) if given.lm else None
    beams = windows.beam_search(
        model, given.beam_size, given.ctc_weight, lm, given.lm_weight
    )
    return windows.Joint(recogniser, beams, given.window, given.overlap).words
