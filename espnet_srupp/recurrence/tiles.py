"""The projection to U and the recurrence together, on a CPU without gradients.

U is three times as large as the frames, and writing it to memory that is new in every
layer takes long. Here each thread makes it for a tile of time and some channels at
once, in memory that stays in its cache, and without the rows of the batch that have
ended.
"""

from collections import deque
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.profiler import record_function
from torch.utils._device import DeviceContext

from . import team
from .arrays import empty, to_numpy, to_torch
from .operator import STATE

# rows of a tile's U: enough for a matrix product to reach its speed
ROWS = 512
# beyond so many rows it pays; in bfloat16 beyond a tile, as smaller products are slow
FEW = 32
# of a tile the first frame, the frames, the rows of the batch that have not ended, and
# their queries, (3, frames * rows, d'), the same for each gate
Tile = tuple[int, int, np.ndarray, Tensor]
DTYPES = (torch.bfloat16, torch.float32, torch.float64)


def serves(x: Tensor, parameters: Iterable[Tensor] = ()) -> bool:
    """Whether `project` is for frames (T, B, D), being enough of them.

    Not with a tangent of forward-mode AD, of x or of the layer's `parameters`, and not
    within torch.func's transforms.
    """
    T, B, _ = x.shape
    if torch.is_grad_enabled() or not x.is_cpu:
        return False
    # who traces needs the operator, which is one node
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    # and who looks at operators or functions would not see those of other threads
    traced = traced or torch._C._len_torch_dispatch_stack() > 0 or in_a_mode()
    # and who asks for tangents is to hear of it there
    if traced or type(x) is not Tensor or any(map(transformed, (x, *parameters))):
        return False
    mixed = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if mixed else x.dtype
    return dtype in DTYPES and T * B > (ROWS if dtype == torch.bfloat16 else FEW)


def in_a_mode() -> bool:
    """Whether a TorchFunctionMode is on, but for a default device."""
    if not torch._C._len_torch_function_stack():
        return False
    modes = torch.overrides._get_current_function_mode_stack()
    return any(type(mode) is not DeviceContext for mode in modes)


def transformed(tensor: Tensor) -> bool:
    """Whether torch.func has wrapped it, or it has a tangent."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return True
    return unpack_dual(tensor).tangent is not None


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
    # numba, which a machine with a GPU may lack
    from . import cpu

    T, B, D = x.shape
    lengths = cpu.checked(lengths, T, B)
    blocks = cpu.blocks(D, bidirectional)
    # so many that every thread has a job
    groups = min(B, -(-torch.get_num_threads() // len(blocks)))
    walks = [_walk(q, lengths, np.arange(k, B, groups)) for k in range(groups)]
    walks = [walk for walk in walks if walk]
    gates = weight.view(3, D, -1).transpose(1, 2)  # (3, d', D)
    fixed = _fixed(x, v, b, lengths)
    # those that no thread is at
    jobs = deque(
        (block[None], gates[..., block[0] : block[1]], walk[:: -1 if block[2] else 1])
        for block in blocks
        for walk in walks
    )
    # the first tiles have the most rows
    most = max([walk[0][-1].shape[1] for walk in walks], default=0)
    size = 3 * most * (blocks[:, 1] - blocks[:, 0]).max()
    # for profilers, as the operator of the whole has a name
    with record_function("espnet_srupp::recurrence_tiles"):
        team.share(len(jobs), lambda worker, workers: _run(jobs, size, fixed))
    *_, h, _, _ = fixed
    for row, length in enumerate(lengths.tolist()):
        h[length:, row] = 0
    return to_torch(h)


@torch.no_grad()  # which a thread has of its own
def _run(
    jobs: deque[tuple[np.ndarray, Tensor, list[Tile]]],
    size: int,
    fixed: list[np.ndarray],
) -> None:
    """Takes a job, does its next tile and puts it back, until there is none.

    A thread whose core is slow leaves more to the others so.

    Args:
        jobs: for each a block, (1, 3), its columns of the gates, (3, d', n), and its
            tiles that are left.
        size: most numbers of a tile's U.
        fixed: what jobs share, as of `_fixed`.
    """
    from . import loops

    x, v, *_ = fixed
    w, room = np.empty(loops.SIZE, v.dtype), np.empty(size, x.dtype)
    while jobs:
        try:
            block, columns, (tile, *left) = jobs.popleft()
        except IndexError:
            break  # another thread was faster
        first, frames, rows, q = tile
        m, n = q.shape[1], columns.shape[2]
        u = room[: 3 * m * n].reshape(3, m, n)
        _multiply(q, columns, to_torch(u))
        u, steps = u.reshape(3 * m, n), (len(rows), 1, m)
        loops.forward(w, block, 0, 1, first, frames, rows, u, steps, *fixed, True)
        if left:
            jobs.append((block, columns, left))


def _multiply(q: Tensor, columns: Tensor, u: Tensor) -> None:
    """u = q columns for each gate: (3, m, n) = (3, m, d') (3, d', n)."""
    if q.dtype == torch.bfloat16:
        # oneDNN would copy the columns of three products at once
        for q_gate, columns_gate, u_gate in zip(q, columns, u, strict=True):
            torch.mm(q_gate, columns_gate, out=u_gate)
    else:
        # one call, as between calls threads wait for Python's lock
        torch.bmm(q, columns, out=u)


def _walk(q: Tensor, lengths: Tensor, rows: np.ndarray) -> list[Tile]:
    """Tiles of these rows of the batch, in order."""
    T, B, _ = q.shape
    frames = max(1, ROWS // len(rows))
    walk = []
    for first in range(0, T, frames):
        left = rows[lengths.numpy()[rows] > first]
        if left.size == 0:
            break
        tile = q[first : first + frames]
        tile = tile if len(left) == B else tile[:, left]
        walk.append((first, len(tile), left, tile.flatten(0, 1).expand(3, -1, -1)))
    return walk


def _fixed(x: Tensor, v: Tensor, b: Tensor, lengths: Tensor) -> list[np.ndarray]:
    """What tiles share: x, v, b, mask, lengths, h, the state, and no saved states."""
    T, B, D = x.shape
    dtype = STATE[x.dtype]
    (h,) = empty(x.dtype, (T, B, D))
    mask, state, c = empty(dtype, (B, D), (B, D), (0, B, D))
    mask[:], state[:] = 1, 0
    # copies, as in cpu._arrays
    numbers = [to_numpy(tensor, dtype) for tensor in (v.clone(), b.clone())]
    numbers = [to_numpy(x, x.dtype), *numbers]
    return [*numbers, mask, to_numpy(lengths, torch.int64), h, state, c]
