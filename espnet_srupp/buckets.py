"""A padded batch on a CPU as buckets: batches of like lengths, with less padding."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from espnet_srupp.hooks import watched
from espnet_srupp.precision import computed_in

# multiplications, of padded frames by one of a layer's large matrices, in whose time a
# thread begins another batch: for encoders of 2 to 33 M parameters on two cores
WORK = 15e6
Outputs = tuple[dict[int, Tensor], Tensor]


def serves(x: Tensor, modules: Iterable[nn.Module]) -> bool:
    """Whether a batch of padded frames or tokens is to go through `modules` by buckets.

    On a CPU, as a GPU would have to be waited for and needs large batches; not in types
    of 16 bits, for which it was not measured; nor where someone traces, who cannot know
    lengths, or watches the modules and expects the batch.
    """
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if not x.is_cpu or traced or torch._C._len_torch_dispatch_stack() > 0:
        return False
    return computed_in(x).itemsize > 2 and not watched(modules)


def cost(layer_size: int) -> float:
    """Padded frames of layers that take as long as to begin another batch.

    Args:
        layer_size: numbers of one of a layer's large matrices, d d'.
    """
    return torch.get_num_threads() * WORK / layer_size


def in_buckets(
    encode: Callable[[Tensor, Tensor, bool], Outputs],
    xs_pad: Tensor,
    ilens: Tensor,
    shortest: int,
    cost: float,
) -> Outputs:
    """`encode` by buckets, its outputs put together again.

    Args:
        encode: makes of a batch, its lengths and whether any frame of it is padded the
            outputs {name: (B, T', D)}, and their lengths.
        xs_pad: (B, T, ...).
        ilens: (B,), real frames of each utterance.
        shortest: frames that `encode` needs at least.
        cost: padded frames that take as long as to begin another batch.

    Returns:
        Outputs and lengths as of `encode`; shorter utterances are padded by what is in
        their bucket's last frame.
    """
    order = ilens.argsort(descending=True, stable=True)
    widths, outs, olens = ilens[order].clamp(min=shortest).tolist(), [], []
    buckets = divide(widths, cost)
    if len(buckets) == 1:
        return encode(xs_pad, ilens, True)
    for first, last in buckets:
        rows, width = order[first:last], widths[first]
        xs, lengths = xs_pad[:, :width].index_select(0, rows), ilens[rows]
        some, some_olens = encode(xs, lengths, int(lengths[-1]) < width)
        outs.append(some)
        olens.append(some_olens)
    back = order.argsort()
    joined = {name: join([some[name] for some in outs]) for name in outs[0]}
    joined = {name: xs.index_select(0, back) for name, xs in joined.items()}
    return joined, torch.cat(olens)[back]


def divide(lengths: list[int], cost: float) -> list[tuple[int, int]]:
    """Begin and end of each bucket of `lengths`, which are in descending order.

    A bucket ends where with one more its padding would be over `cost` frames.
    """
    starts, padding = [0], 0
    for i, length in enumerate(lengths):
        padding += lengths[starts[-1]] - length
        if padding > cost:
            starts.append(i)
            padding = 0
    return [*zip(starts, [*starts[1:], len(lengths)], strict=True)]


def join(xs: list[Tensor]) -> Tensor:
    """Batches (B, T, D) as one, as wide as the first; last frames pad the others."""
    T = xs[0].shape[1]
    ends = [x[:, -1:].expand(-1, T - x.shape[1], -1) for x in xs]
    return torch.cat([torch.cat(pair, 1) for pair in zip(xs, ends, strict=True)])
