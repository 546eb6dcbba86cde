"""Features of a recording of any length: ESPnet's own frontend on tiles of time.

ESPnet masks the padding of a batch by a matrix quadratic in time, so its frontend and
its normalisation get no more than a tile to see. The frames are those of one pass.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from espnet2.asr.frontend.default import DefaultFrontend
from espnet2.layers.abs_normalize import AbsNormalize
from espnet2.layers.utterance_mvn import UtteranceMVN
from torch import Tensor


def features(
    frontend: DefaultFrontend,
    normalize: AbsNormalize | None,
    blocks: Iterable[np.ndarray],
    tile: int,
) -> Tensor:
    """Features (T, D) of samples that come in blocks, normalised.

    Args:
        frontend: with an STFT; its parameters tell the device.
        normalize: GlobalMVN, UtteranceMVN or None.
        blocks: samples (N,) each.
        tile: frames that are made at once.

    Returns:
        On the frontend's device; T is 0 where ESPnet's STFT refuses so few samples.
    """
    whole = isinstance(normalize, UtteranceMVN)
    made = []
    for xs in tiles(frontend, blocks, tile):
        if normalize is not None and not whole:
            xs = normalize(xs[None], length(xs))[0][0]
        made.append(xs)
    if not made:
        device = frontend.logmel.melmat.device
        return torch.zeros(0, frontend.output_size(), device=device)
    xs = torch.cat(made)
    return normalized(normalize, xs) if whole else xs


def tiles(
    frontend: DefaultFrontend, blocks: Iterable[np.ndarray], tile: int
) -> Iterator[Tensor]:
    """Frames (<= tile + context, D), tile by tile, not normalised.

    A tile's samples begin at a multiple of the hop and reach over its frames by more
    than a window on both sides. The frames that the STFT's own padding at their ends
    changes are left out, but at the true ends.
    """
    n_fft, hop = frontend.stft.n_fft, frontend.stft.hop_length
    context = n_fft // hop + 1
    device = frontend.logmel.melmat.device
    held = torch.zeros(0)
    first = done = 0  # frames: the one where `held` begins, and how many are made
    for block in blocks:
        held = torch.cat([held, torch.from_numpy(block)])
        while len(held) >= (samples := (done + tile - 1 + context - first) * hop):
            xs = frames(frontend, held[:samples].to(device))
            yield xs[done - first : done - first + tile]
            done += tile
            passed = max(0, done - context) - first
            held, first = held[passed * hop :], first + passed
    # fewer samples cannot be padded by reflection, or do not fill a window
    if len(held) >= (n_fft // 2 + 1 if frontend.stft.center else n_fft):
        yield frames(frontend, held.to(device))[done - first :]


def frames(frontend: DefaultFrontend, samples: Tensor) -> Tensor:
    """What the frontend makes of samples (N,): (T, D)."""
    xs, lengths = frontend(samples[None], length(samples))
    return xs[0, : lengths[0]]


def length(xs: Tensor) -> Tensor:
    """The lengths of a batch that has this alone."""
    return torch.tensor([len(xs)], device=xs.device)


def normalized(normalize: UtteranceMVN, xs: Tensor) -> Tensor:
    """UtteranceMVN of a whole recording (T, D)."""
    mean, deviation = xs.mean(0), xs.std(0, correction=0).clamp(min=normalize.eps)
    if normalize.norm_means:
        xs -= mean
    if normalize.norm_vars:
        xs /= deviation
    return xs
