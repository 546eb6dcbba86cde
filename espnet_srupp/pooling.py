"""Layers that run on fewer frames than they take and return: `layer_pooling`."""

from collections.abc import Callable, Container
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor


def on_means(
    layers: Callable[[Tensor, Tensor], Tensor], x: Tensor, lengths: Tensor, pooling: int
) -> Tensor:
    """Adds to each frame what the layers change in the mean of its neighbours.

        y = mean of `pooling` frames x        x + layers(y) - y for each of them

    So what differs within a mean passes by, as through the highway of a layer whose
    reset gates are closed, and layers on fewer frames cost less: as in the stacks of
    Squeezeformer (arXiv 2206.00888) and Zipformer (arXiv 2310.11230).

    Args:
        layers: maps (T', B, D) and their lengths (B,) to (T', B, D).
        x: (T, B, D); what is padded is not read.
        lengths: (B,), real frames. The last mean of an utterance may be of fewer.
        pooling: frames of a mean, 1 or more.

    Returns:
        (T, B, D), at padded frames anything.
    """
    if pooling == 1:
        return layers(x, lengths)
    T, B, D = x.shape
    # shapes from T by sums and products alone, which torch.export can follow
    means = (T + pooling - 1) // pooling
    first = torch.arange(means, device=x.device)[:, None] * pooling  # (T', 1)
    frames = first + torch.arange(pooling, device=x.device)  # (T', pooling)
    y = F.pad(x, (0, 0, 0, 0, 0, means * pooling - T))  # a copy in any case
    padded = (frames[..., None] >= lengths)[..., None]  # (T', pooling, B, 1)
    y = y.view(means, pooling, B, D).masked_fill_(padded, 0)
    # a sum may be more than float16 holds
    y = y.sum(1, dtype=torch.promote_types(x.dtype, torch.float32))
    y = (y / (lengths - first).clamp(1, pooling)[..., None]).to(x.dtype)
    change = layers(y, (lengths + pooling - 1) // pooling) - y  # (T', B, D)
    return change.index_select(0, torch.arange(T, device=x.device) // pooling).add_(x)


def stacks(pooling: list[int], ends: Container[int]) -> list[tuple[int, int, int]]:
    """Layers in a row that run on the same means; one on all frames is by itself.

    Args:
        pooling: of each layer.
        ends: layers, from 1, whose output is wanted, so that a stack ends there.

    Returns:
        (first, last, pooling): the layers [first, last), from 0.
    """
    joined = (i > 0 and k > 1 and pooling[i - 1] == k for i, k in enumerate(pooling))
    starts = [i for i, join in enumerate(joined) if i in ends or not join]
    return [(i, j, pooling[i]) for i, j in pairwise([*starts, len(pooling)])]


def of_layers(layer_pooling: list[int], num_blocks: int) -> list[int]:
    """The pooling of each layer.

    Raises:
        ValueError: it is not given for each of them, or is no whole number from 1 on.
    """
    pooling = list(layer_pooling) or [1] * num_blocks
    # typeguard looks at the first number only
    whole = all(type(k) is int and k >= 1 for k in pooling)
    if len(pooling) != num_blocks or not whole:
        raise ValueError(
            f"layer_pooling is {layer_pooling}: give a whole number from 1 on for "
            f"each of the {num_blocks} layers"
        )
    return pooling
