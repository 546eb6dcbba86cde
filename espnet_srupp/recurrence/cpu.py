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
from .arrays import empty, to_numpy, to_torch


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
    u, *arrays, c0, mask, lengths = _arrays(u, x, v, b, c0, lengths, mask_c)
    out = empty(_frames(x, v), (T, B, D))
    out += c0.copy(), *empty(v.dtype, (T if save_c else 0, B, D))
    u, steps = u.reshape(T * B * 3, D), (3 * B, 3, 1)
    given = 0, T, np.arange(B), u, steps, *arrays, mask, lengths, *out, False
    run(loops.forward, v.dtype, blocks(D, bidirectional), B, *given)
    h, c_last, c = map(to_torch, out)
    return h.to(x.dtype), c_last, c if save_c else c.view(0)


def backward(
    dh: Tensor,
    dc_last: Tensor | None,
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
    frames = _frames(x, v)
    dc_last = v.new_zeros(B, D) if dc_last is None else dc_last
    grads = to_numpy(dh, frames), to_numpy(dc_last, v.dtype), to_numpy(c, v.dtype)
    # dv and db are sums over time, one for each row of the batch
    out = empty(frames, (T, B, 3, D), (T, B, D))
    out += empty(v.dtype, (B, 2, D), (B, 2, D), (B, D))
    given = *arrays, *grads, *out
    run(loops.backward, v.dtype, blocks(D, bidirectional), B, *given)
    du, dx, dv, db, dc0 = map(to_torch, out)
    return du.to(u.dtype), dx.to(x.dtype), dv.sum(0), db.sum(0), dc0


def _frames(x: Tensor, v: Tensor) -> torch.dtype:
    """The type of u, x and h in the loops, which have none for float16."""
    return v.dtype if x.dtype == torch.float16 else x.dtype


def _arrays(u, x, v, b, c0, lengths, mask_c) -> list[np.ndarray]:
    T, B, D = x.shape
    c0 = v.new_zeros(B, D) if c0 is None else c0
    mask_c = v.new_ones(B, D) if mask_c is None else mask_c
    lengths = checked(lengths, T, B)
    frames = [to_numpy(tensor, _frames(x, v)) for tensor in (u, x)]
    # torch never resizes what numpy has seen, and FSDP does parameters
    v, b = v.clone(), b.clone()
    floats = [to_numpy(tensor, v.dtype) for tensor in (v, b, c0, mask_c)]
    return [*frames, *floats, to_numpy(lengths, torch.int64)]


def checked(lengths: Tensor | None, T: int, B: int) -> Tensor:
    """The frames of each row.

    Raises:
        ValueError: a length is not in [0, T].
    """
    lengths = torch.full((B,), T, device="cpu") if lengths is None else lengths
    if B and (lengths.min() < 0 or lengths.max() > T):
        raise ValueError(
            f"recurrence: lengths are {lengths.tolist()}, expected 0 to T = {T}."
        )
    return lengths


def blocks(D: int, bidirectional: bool) -> np.ndarray:
    """Rows of (first channel, end, backward in time or not)."""
    directions = 1 + bidirectional
    width = D // directions
    count = -(-width // loops.BLOCK)
    edges = [width * i // count for i in range(count + 1)]
    return np.array(
        [
            (way * width + start, way * width + end, way)
            for way in range(directions)
            for start, end in itertools.pairwise(edges)
        ]
    )


def run(
    loop: Callable, dtype: torch.dtype, blocks: np.ndarray, rows: int, *arrays: object
) -> None:
    """Runs one of `loops`, with states of this type, over blocks of so many rows."""

    def work(worker: int, workers: int) -> None:
        (w,) = empty(dtype, (loops.SIZE,))
        loop(w, blocks, worker, workers, *arrays)

    team.share(len(blocks) * rows, work)
