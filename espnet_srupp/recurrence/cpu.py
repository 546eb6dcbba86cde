"""The recurrence on a CPU: numba, vectorised over channels, threads over columns.

One job is a block of neighbouring channels of one row of the batch, walked through
time with the state in cache. Blocks do not depend on the number of threads, and no two
jobs write the same number, so results are bit-equal for any number of threads.
kernels/README.md derives the backward pass.
"""

import itertools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from . import loops, team

# most channels of a job: wide enough to walk whole memory pages, narrow enough for two
# threads to share one long utterance
BLOCK = 1024


def forward(
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c0: Tensor | None,
    lengths: Tensor | None,
    mask_c: Tensor | None,
    bidirectional: bool,
    save_c: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """(h, c_last, c), as `operator.recurrence_forward`."""
    T, B, D = x.shape
    arrays = _arrays(u, x, v, b, c0, lengths, mask_c)
    out = _empty(v.dtype, (T, B, D), (B, D), (T if save_c else 0, B, D))
    _run(loops.forward, _blocks(D, bidirectional), B, *arrays, *out)
    h, c_last, c = map(torch.from_numpy, out)
    return h.to(x.dtype), c_last, c if save_c else c.view(0)


def backward(
    dh: Tensor,
    dc_last: Tensor,
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c0: Tensor | None,
    lengths: Tensor | None,
    mask_c: Tensor | None,
    c: Tensor,
    bidirectional: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(du, dx, dv, db, dc0), as `operator.recurrence_backward`."""
    T, B, D = x.shape
    arrays = _arrays(u, x, v, b, c0, lengths, mask_c)
    grads = [_array(tensor, v.dtype) for tensor in (dh, dc_last, c)]
    # dv and db are sums over time, one for each row of the batch
    shapes = (T, B, 3, D), (T, B, D), (B, 2, D), (B, 2, D), (B, D)
    out = _empty(v.dtype, *shapes)
    _run(loops.backward, _blocks(D, bidirectional), B, *arrays, *grads, *out)
    du, dx, dv, db, dc0 = map(torch.from_numpy, out)
    return du.to(u.dtype), dx.to(x.dtype), dv.sum(0), db.sum(0), dc0


def _empty(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    # numpy asks for huge pages, torch does not: page faults cost as much as the loops
    name = str(dtype).removeprefix("torch.")
    return [np.empty(shape, name) for shape in shapes]


def _array(tensor: Tensor, dtype: torch.dtype) -> np.ndarray:
    return tensor.detach().to(dtype).contiguous().numpy()


def _arrays(u, x, v, b, c0, lengths, mask_c) -> list[np.ndarray]:
    T, B, D = x.shape
    c0 = v.new_zeros(B, D) if c0 is None else c0
    mask_c = v.new_ones(B, D) if mask_c is None else mask_c
    lengths = torch.full((B,), T) if lengths is None else lengths
    if B and (lengths.min() < 0 or lengths.max() > T):
        raise ValueError(
            f"recurrence: lengths are {lengths.tolist()}, expected 0 to T = {T}."
        )
    floats = [_array(tensor, v.dtype) for tensor in (u, x, v, b, c0, mask_c)]
    return [*floats, _array(lengths, torch.int64)]


def _blocks(D: int, bidirectional: bool) -> np.ndarray:
    """Rows of (first channel, end, backward in time or not)."""
    directions = 1 + bidirectional
    width = D // directions
    count = -(-width // BLOCK)
    edges = [width * i // count for i in range(count + 1)]
    return np.array(
        [
            (way * width + start, way * width + end, way)
            for way in range(directions)
            for start, end in itertools.pairwise(edges)
        ]
    )


def _run(loop: Callable, blocks: np.ndarray, B: int, *arrays: np.ndarray) -> None:
    def work(worker: int, workers: int) -> None:
        loop(blocks, worker, workers, *arrays)

    team.share(len(blocks) * B, work)
