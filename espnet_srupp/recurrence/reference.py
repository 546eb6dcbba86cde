"""The recurrence as a loop over time in plain torch: the definition of correct.

Autograd differentiates it, so its gradients share no mistake with hand-written ones.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def step(
    u: Tensor, x: Tensor, v: Tensor, b: Tensor, c: Tensor, real: Tensor, mask_c: Tensor
) -> tuple[Tensor, Tensor]:
    """(h_t, c_t) of one frame from the state before; `real` (B, 1) tells padding."""
    f = torch.sigmoid(u[:, 0] + v[0] * c + b[0])  # (B, D)
    r = torch.sigmoid(u[:, 1] + v[1] * c + b[1])
    c = torch.where(real, f * c + (1 - f) * u[:, 2], c)
    return torch.where(real, r * c * mask_c + (1 - r) * x, 0), c


def scan(
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c: Tensor,
    real: Tensor,
    mask_c: Tensor,
) -> tuple[Tensor, Tensor]:
    """Walks frames in the order given; `real` (T, B, 1) tells frames from padding."""
    hs = []
    for t in range(len(x)):
        h, c = step(u[t], x[t], v, b, c, real[t], mask_c)
        hs.append(h)
    return (torch.stack(hs) if hs else x.clone()), c


def recurrence(
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c0: Tensor | None,
    lengths: Tensor | None,
    mask_c: Tensor | None,
    bidirectional: bool,
    scan: Callable[..., tuple[Tensor, Tensor]] = scan,
) -> tuple[Tensor, Tensor]:
    """Computes (h, c_last) by `scan`; other arguments as in `operator.recurrence`."""
    T, B, _, D = u.shape
    dtype = v.dtype
    c0 = v.new_zeros(B, D) if c0 is None else c0
    mask_c = v.new_ones(B, D) if mask_c is None else mask_c
    lengths = torch.full((B,), T, device=u.device) if lengths is None else lengths
    real = (torch.arange(T, device=u.device)[:, None] < lengths)[..., None]  # (T, B, 1)
    # padding may hold NaN, and 0 * NaN would reach the gradients
    uz = torch.where(real[..., None], u.to(dtype), 0)
    xz = torch.where(real, x.to(dtype), 0)

    ahead = slice(0, D // 2 if bidirectional else D)
    h, c = scan(*_channels(ahead, uz, xz, v, b, c0), real, mask_c[..., ahead])
    if bidirectional:
        back = slice(D // 2, D)
        uz, xz, real = uz.flip(0), xz.flip(0), real.flip(0)
        hb, cb = scan(*_channels(back, uz, xz, v, b, c0), real, mask_c[..., back])
        h, c = torch.cat([h, hb.flip(0)], -1), torch.cat([c, cb], -1)
    return h.to(x.dtype), c


def _channels(part: slice, *tensors: Tensor) -> list[Tensor]:
    return [tensor[..., part] for tensor in tensors]
