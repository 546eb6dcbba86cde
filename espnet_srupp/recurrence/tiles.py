"""The projection to U and the recurrence together, on a CPU without gradients.

U is three times as large as the frames, and writing it to memory that is new in every
layer takes long. Here it exists for a tile of time and one direction at once, in memory
that stays in cache, and without the rows of the batch that have ended.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.profiler import record_function

from .arrays import empty, to_numpy, to_torch
from .operator import STATE

# rows of a tile's U: enough for a matrix product to reach its speed
ROWS = 512
DTYPES = (torch.bfloat16, torch.float32, torch.float64)


def serves(x: Tensor, parameters: Iterable[Tensor] = ()) -> bool:
    """Whether `project` is for frames (T, B, D), being more than one tile.

    Not with a tangent of forward-mode AD, of x or of the layer's `parameters`.
    """
    T, B, _ = x.shape
    if torch.is_grad_enabled() or not x.is_cpu:
        return False
    # who traces needs the operator, which is one node
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    # and who asks for tangents is to hear of it there
    tangents = (unpack_dual(t).tangent for t in (x, *parameters))
    if traced or type(x) is not Tensor or any(t is not None for t in tangents):
        return False
    mixed = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if mixed else x.dtype
    return dtype in DTYPES and T * B > ROWS


def project(
    q: Tensor,
    weight: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    lengths: Tensor | None,
    bidirectional: bool,
) -> Tensor:
    """h of `recurrence(u, x, v, b, lengths=lengths, ...)` where u is q weight^T.

    Args:
        q: (T, B, d'), float32, float64 or bfloat16, as all but v and b.
        weight: (3 D, d'), of the forget gate, the reset gate and the candidate.
        x, v, b, lengths, bidirectional: as `recurrence` has them.

    Returns:
        (T, B, D), zero at padded frames.

    Raises:
        ValueError: a length is not in [0, T].
    """
    from . import cpu, loops

    T, B, D = x.shape
    ways = 1 + bidirectional
    weight = weight.view(3, ways, D // ways, -1).transpose(0, 1)
    weight = weight.reshape(ways, 3 * D // ways, -1).transpose(1, 2)
    lengths = cpu.checked(lengths, T, B)
    blocks = cpu.blocks(D, bidirectional)
    fixed = _fixed(x, v, b, lengths)
    frames = max(1, ROWS // B)
    room = q.new_empty(frames * B, 3 * D // ways)
    for way, start in _walk(T, frames, ways):
        rows = (lengths > start).nonzero()[:, 0]
        q_tile = q[start : start + frames, rows]  # (frames, rows, d')
        u = room[: q_tile[..., 0].numel()]
        torch.mm(q_tile.flatten(0, 1), weight[way], out=u)
        u = u.view(*q_tile.shape[:2], 3, D // ways)
        given = start, to_numpy(rows, torch.int64), to_numpy(u, u.dtype), *fixed
        # for profilers, as the operator of the whole has a name
        with record_function("espnet_srupp::recurrence_tile"):
            jobs = blocks[blocks[:, 2] == way], len(rows)
            cpu.run(loops.forward, STATE[x.dtype], *jobs, *given)
    h = to_torch(fixed[-3])
    for row, length in enumerate(lengths.tolist()):
        h[length:, row] = 0
    return h


def _fixed(x: Tensor, v: Tensor, b: Tensor, lengths: Tensor) -> list[np.ndarray]:
    """What tiles share: x, v, b, mask, lengths, h, the state, and no saved states."""
    T, B, D = x.shape
    dtype = STATE[x.dtype]
    (h,) = empty(x.dtype, (T, B, D))
    mask, state, c = empty(dtype, (B, D), (B, D), (0, B, D))
    mask[:], state[:] = 1, 0
    numbers = [to_numpy(x, x.dtype), to_numpy(v, dtype), to_numpy(b, dtype)]
    return [*numbers, mask, to_numpy(lengths, torch.int64), h, state, c]


def _walk(T: int, frames: int, ways: int) -> Iterator[tuple[int, int]]:
    """(direction, first frame) of each tile, in the order of the recurrence."""
    starts = range(0, T, frames)
    for way in range(ways):
        for start in reversed(starts) if way else starts:
            yield way, start
