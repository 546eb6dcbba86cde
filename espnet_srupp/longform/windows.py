"""Joint CTC and attention decoding of a long recording, in overlapping windows.

Each window of the features is encoded and decoded by itself, as an utterance is: a
decoder that has learned from utterances cannot attend to slices of a long encoding.

In the overlap of two windows the words of both are compared. Where they agree on a word
at about the same time, the one that is nearest to the middle of the overlap is where
the text goes over from one window to the next: every word on which both agree is there
once, whatever its times, and where they differ, one of them is believed as a whole. If
they agree on none, a word is taken from the window in whose half of the overlap its
middle lies; then one on the boundary may be there twice, or not at all. A word that a
window cuts lies at the far end of an overlap, and is taken from the other window unless
they agree on nothing nearer to the middle.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
import torchaudio

# with ESPnet's own names for them, as they moved between its versions
from espnet2.bin.asr_inference import (
    BatchBeamSearch,
    BatchScorerInterface,
    BeamSearch,
    CTCPrefixScorer,
)
from torch import Tensor, nn

from espnet_srupp.longform import search
from espnet_srupp.longform.model import Recogniser
from espnet_srupp.longform.words import Token, Word

SAME = 0.2  # seconds by which the times of one word may differ in two windows


def beam_search(
    model: nn.Module,
    beam_size: int,
    ctc_weight: float,
    lm: nn.Module | None = None,
    lm_weight: float = 0.0,
) -> BeamSearch:
    """ESPnet's search as `espnet2.bin.asr_inference` makes it, without ESPnet's margin.

    Args:
        model: ESPnetASRModel with a decoder.
        beam_size: hypotheses to keep; at most as many as there are tokens.
        ctc_weight: of the CTC; the decoder has the rest of 1.
        lm: a language model of ESPnet with the same tokens.
        lm_weight: its weight, beside 1 for the others together.
    """
    scorers = {"decoder": model.decoder}
    if lm is not None:
        scorers["lm"] = lm
    batched = all(isinstance(each, BatchScorerInterface) for each in scorers.values())
    made = (BatchBeamSearch if batched else BeamSearch)(
        scorers=scorers | {"ctc": CTCPrefixScorer(ctc=model.ctc, eos=model.eos)},
        weights={"decoder": 1 - ctc_weight, "ctc": ctc_weight, "lm": lm_weight},
        # the first step has no more to choose from
        beam_size=min(beam_size, len(model.token_list)),
        vocab_size=len(model.token_list),
        sos=model.sos,
        eos=model.eos,
        token_list=model.token_list,
        pre_beam_score_key=None if ctc_weight == 1 else "full",
    )
    return made.to(next(model.parameters()).device).eval()


@dataclass(frozen=True)
class Joint:
    """Decodes by windows.

    Attributes:
        recogniser: with a decoder that attends.
        search: of `beam_search`.
        window, overlap: in seconds.
    """

    recogniser: Recogniser
    search: BeamSearch
    window: float
    overlap: float

    def words(
        self, xs: Tensor, seconds: float, told: Callable[[float], None]
    ) -> list[Word]:
        """Words of a recording of so many seconds.

        Args:
            xs: its features (T, D); they are decoded at once if they fit a window.
            seconds: how long the recording is.
            told: is called with the share that is done.
        """
        frame = self.recogniser.frame
        window, overlap = round(self.window / frame), round(self.overlap / frame)
        found: list[Word] = []
        last = 0
        for begin, end in spans(len(xs), window, overlap):
            encoded, clock = self.recogniser.encode(xs[begin:end])
            words = self.recogniser.spelling.words(
                self.decode(encoded), clock.later(begin * frame), seconds
            )
            found = joined(found, words, begin * frame, last * frame)
            last = end
            told(end / max(1, len(xs)))
        return found

    def decode(self, xs: Tensor) -> list[Token]:
        """Tokens of an encoded window (T', D), in the frames where CTC puts them."""
        found = self.search(x=xs) if len(xs) else []
        if not found:
            return []
        model = self.recogniser.espnet
        blank = model.blank_id
        # without the marks of begin and end
        ids = [id for id in found[0].yseq.tolist()[1:-1] if id != blank]
        return aligned(model.ctc.log_softmax(xs[None]), ids, blank)


def spans(frames: int, window: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Windows [begin, end), evenly spaced, that overlap by `overlap` frames or more."""
    count = 1 + max(0, -(-(frames - window) // (window - overlap)))
    for number in range(count):
        begin = number * max(0, frames - window) // max(1, count - 1)
        yield begin, min(begin + window, frames)


def aligned(log_probs: Tensor, ids: list[int], blank: int) -> list[Token]:
    """The best alignment of tokens to log-probabilities (1, T', vocabulary).

    Where there are more tokens than CTC can put into the frames, evenly spaced.
    """
    T = log_probs.shape[1]
    repeated = sum(a == b for a, b in pairwise(ids))
    if not ids or len(ids) + repeated > T:
        # the empty list, too, as forced_align refuses it
        edges = [number * T // max(1, len(ids)) for number in range(len(ids) + 1)]
        return [Token(*item) for item in zip(ids, edges, edges[1:], strict=False)]
    targets = torch.tensor([ids], device=log_probs.device)
    labels, _ = torchaudio.functional.forced_align(log_probs, targets, blank=blank)
    return search.tokens(labels[0], blank)


def joined(
    before: list[Word], after: list[Word], begin: float, end: float
) -> list[Word]:
    """Words of a recording so far, and those of the window that begins at `begin`.

    Args:
        before, after: in the order of time.
        begin, end: the overlap, in seconds.
    """
    middle = (begin + end) / 2
    pairs = [
        (abs(before[i].middle - middle), i, j)
        for i, j in agreed(before, after)
        if begin <= before[i].middle <= end
    ]
    if pairs:
        _, i, j = min(pairs)
        return before[: i + 1] + after[j + 1 :]
    return [w for w in before if w.middle < middle] + [
        w for w in after if w.middle >= middle
    ]


def agreed(before: list[Word], after: list[Word]) -> Iterator[tuple[int, int]]:
    """Pairs of the same word that are nearest to each other in time, and near."""
    early, late = [w.middle for w in before], [w.middle for w in after]
    start = bisect_left(early, late[0] - SAME) if late else len(early)
    for i in range(start, len(early)):
        j = nearest(early[i], late)
        same = before[i].text == after[j].text and abs(early[i] - late[j]) <= SAME
        if same and nearest(late[j], early) == i:
            yield i, j


def nearest(time: float, times: list[float]) -> int:
    """Which of rising times is nearest."""
    right = bisect_left(times, time)
    some = range(max(0, right - 1), min(right + 1, len(times)))
    return min(some, key=lambda number: abs(times[number] - time))
