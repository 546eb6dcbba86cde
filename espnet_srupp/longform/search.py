"""CTC search over a whole recording, in one pass from its first frame to its last."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from espnet_srupp.longform.beams import NEVER, Beams, LanguageModel
from espnet_srupp.longform.words import Token


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


def prefix(
    log_probs: Iterable[Tensor], blank: int, beam: int, lm: LanguageModel | None = None
) -> list[Token]:
    """The most probable sequence of tokens by CTC prefix beam search.

    Hannun et al. 2014, arXiv 1408.2873, with the language model at each token instead
    of each word. After each frame the `beam` most probable prefixes are kept, and that
    is the only pruning: no frame is passed by, and the tokens that are not tried are
    those that would not be kept. Time is linear in the frames, memory in the tokens.

    Args:
        log_probs: (rows, vocabulary) each, the frames in order.
        blank: id of CTC's blank.
        beam: prefixes to keep, at least 1.
        lm: a language model, whose probabilities multiply CTC's.

    Returns:
        The tokens, each in the frames where the best of their alignments has it.
    """
    beams = Beams(blank, beam, lm)
    for tile in log_probs:
        rows = tile.double().cpu().numpy()
        for row, ids in zip(rows, tried(tile, beams), strict=True):
            beams.advance(row, ids)
    return beams.tokens()


def tried(tile: Tensor, beams: Beams) -> Iterable[np.ndarray]:
    """New tokens for each frame of (rows, vocabulary), all that could be kept."""
    rows, vocabulary = tile.shape
    if beams.lm is not None:
        # which may prefer any
        return [np.delete(np.arange(vocabulary), beams.blank)] * rows
    others = tile.clone()
    others[:, beams.blank] = NEVER
    # for each prefix, these hold as many new tokens as there is room for, and its last
    # token, which is less probable as a new one
    best = others.topk(min(beams.beam + 1, vocabulary)).indices.cpu().numpy()
    return [ids[ids != beams.blank] for ids in best]
