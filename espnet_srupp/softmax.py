"""Softmax attention over given queries, keys and values, in memory linear in time."""

import math
import threading
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from espnet_srupp.precision import has_bfloat16

# queries whose scores with all keys exist at once, so memory stays linear in time; on a
# CPU so few that they stay in cache
TILE, TILE_CPU = 2048, 256
# of all rows and heads in bfloat16 on a GPU at inference: on an H200 5 minutes take
# 0.94 of the time and 0.68 of the kernels, an hour 0.97 and 1.13 times the memory
TILE_FEW = 8192
# keys of which a GPU's fast products want a multiple: rows of scores of 16 bytes'
WHOLE, WHOLE_CPU = 8, 1
# frames up to which SDPA's kernel for wide heads is the faster one on an H200
SHORT = 400
# without cuDNN's, which torch prefers on an H100: with a mask its gradients can be NaN
# (pytorch/pytorch#196678), and it is built again for each new shape of a batch
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# torch keeps the choice for the whole process
CHOOSING = threading.Lock()
# whether tiles are faster in bfloat16 than SDPA's kernel on this CPU, which of all
# instructions for it uses AMX alone
TILED = has_bfloat16() and not torch.cpu.get_capabilities().get("amx_bf16")
HALF_MAX = torch.finfo(torch.float16).max


def attend(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, dropout_rate: float = 0.0
) -> Tensor:
    """Softmax attention in memory linear in time, forward and backward.

    Args:
        q: queries, (B, heads, T, E).
        k, v: keys and values, (B, heads, S, E). S is T; more if not `fused`, and those
            from T on, which `aligned` adds, are not real.
        keys: (B, S) bool, True at real keys; None when the first T are. A row without
            any real one gives something finite.
        dropout_rate: on the weights, 0 to 1.

    Returns:
        (B, heads, T, E).
    """
    if keys is not None:
        keys = keys[:, None, None]  # (B, 1, 1, S)
    if fused(q, dropout_rate):
        return sdpa(q, k, v, keys, dropout_rate)
    _, heads, T, _ = q.shape
    given = k, v, keys, T, dropout_rate
    tile = tile_of(q)
    # what is traced serves any length, and so has no number of tiles
    if torch.jit.is_tracing() or heads * T <= tile:
        # the scores are few beside U, which is kept as well for the backward pass; in
        # float16, where they are float32, as many, at the paper's size and the most T
        return attend_plainly(q, *given)
    return torch.cat([attend_tile(y, *given) for y in q.split(tile, dim=2)], dim=2)


def fused(q: Tensor, dropout_rate: float) -> bool:
    """Whether SDPA, given a key mask, has a kernel that never builds the (T, T) scores.

    Where it has none it builds them, and does not say so. On GPUs heads of more than
    256 channels have the memory-efficient kernel alone. In bfloat16 on an H200 it takes
    0.6 to 0.8 times as long as tiles up to 374 frames and 1.1 to 2.3 times from 500 to
    15000; with gradients 2.6 times or more for 250 to 7500. The CPU's for bfloat16
    takes a third of the time of `attend_tile` with AMX, two to three times as long
    where the CPU has but AVX512-BF16, and a quarter to a thirtieth where it has neither
    (benchmarks/attention.py measures it).
    """
    if q.is_cuda:
        _, _, T, E = q.shape
        # T last, as compiled code is one for all lengths as long as nobody asks
        short = not torch.is_grad_enabled() and q.itemsize == 2 and T <= SHORT
        fits = E % 8 == 0 and (E <= 256 or short)
        if q.dtype == torch.bfloat16:
            return fits and torch.cuda.get_device_properties(q.device).major >= 8
        return fits and q.dtype != torch.float64
    return dropout_rate == 0 and (q.dtype != torch.bfloat16 or not TILED)


def sdpa(q, k, v, keys, dropout_rate) -> Tensor:
    """Torch's attention, by one of `KERNELS`, as `attend` has them."""
    given = q, k, v, keys, dropout_rate
    if q.is_cpu:
        # there is no kernel of cuDNN's
        return F.scaled_dot_product_attention(*given)
    # other threads would restore what this one has set
    alone = nullcontext() if torch.compiler.is_compiling() else CHOOSING
    with alone, sdpa_kernel(KERNELS):
        return F.scaled_dot_product_attention(*given)


def tile_of(q: Tensor) -> int:
    """Queries of a tile, of each row and head."""
    if q.is_cpu:
        return TILE_CPU
    B, heads, _, _ = q.shape
    if torch.is_grad_enabled() or q.dtype != torch.bfloat16:
        return TILE
    return max(TILE, TILE_FEW // (B * heads))


def aligned(y: Tensor) -> Tensor:
    """Frames (T, B, d'), and zeros up to the multiple of `WHOLE` that products want."""
    extra = -y.shape[0] % (WHOLE_CPU if y.is_cpu else WHOLE)
    # by 0 as well in code that is one for all lengths
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or extra:
        y = F.pad(y, (0, 0, 0, 0, 0, extra))
    return y


def attend_tile(q, k, v, keys, real, dropout_rate) -> Tensor:
    """Attends from a tile of queries; the backward pass computes its scores again."""
    given = q, k, v, keys, real, dropout_rate
    if not torch.is_grad_enabled():
        return attend_plainly(*given)
    return checkpoint(
        attend_plainly,
        *given,
        use_reentrant=False,
        preserve_rng_state=dropout_rate > 0,
    )


def attend_plainly(q, k, v, keys, real, dropout_rate) -> Tensor:
    """`keys`: which are real, (B, 1, 1, S); None: the first `real` are."""
    B, heads, T, E = q.shape
    q, k, v = (y.flatten(0, 1) for y in (q, k, v))
    # the factor within the product, which rounds once
    scores = torch.baddbmm(
        q.detach()[:, :1, :1], q, k.mT, beta=0, alpha=1 / math.sqrt(E)
    )
    if scores.dtype == torch.float16:
        # without a norm of the queries they can be more than it holds
        scores = scores.clamp(-HALF_MAX, HALF_MAX).float()
    low = torch.finfo(scores.dtype).min
    if keys is not None:
        padded = (~keys).expand(B, heads, -1, -1).flatten(0, 1)
        scores = scores.masked_fill_(padded, low)
    elif real < scores.shape[2]:
        # not all scores are read and written for the sake of a few
        scores[:, :, real:].fill_(low)
    # of bfloat16 too it is computed in float32, and read and written as it is
    weights = F.dropout(scores.softmax(-1, dtype=scores.dtype), dropout_rate)
    return torch.bmm(weights.to(v.dtype), v).view(B, heads, T, E)
