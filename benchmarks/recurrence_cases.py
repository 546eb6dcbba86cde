"""The recurrence's cases, how a GPU times them, and how results are compared."""

import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from espnet_srupp.recurrence import cuda, recurrence
from espnet_srupp.recurrence.operator import recurrence_backward, recurrence_forward


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def make(
    T: int, B: int, D: int, dtype: torch.dtype, device: str = "cuda"
) -> list[Tensor]:
    """u, x, v, b"""
    u = torch.randn(T, B, 3, D, dtype=dtype, device=device)
    x = torch.randn(T, B, D, dtype=dtype, device=device)
    # v as wide as in a model: wider, rounding errors grow from frame to frame
    return [u, x, *torch.randn(2, 2, D, device=device).mul(0.3).unbind()]


def infer(u: Tensor, x: Tensor, v: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return recurrence_forward(u, x, v, b, None, None, None, True, False)


def train(u: Tensor, x: Tensor, v: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return recurrence_forward(u, x, v, b, None, None, None, True, True)


def backward(dh, dc_last, u, x, v, b, c) -> tuple[Tensor, ...]:
    return recurrence_backward(dh, dc_last, u, x, v, b, None, None, None, c, True)


def for_backward(inputs: list[Tensor]) -> list[Tensor]:
    h, c_last, c = train(*inputs)
    return [torch.randn_like(h), torch.randn_like(c_last), *inputs, c]


def kernels(T: int, B: int, D: int, dtype: torch.dtype) -> list[tuple]:
    """(name, function, input sets, bytes moved), for each kind of run."""
    io, state = dtype.itemsize, torch.float32.itemsize / cuda.EVERY
    sets = fresh(lambda: make(T, B, D, dtype))
    backward_sets = [for_backward(inputs) for inputs in sets]
    # u, x in and h out; then some c out; then u, x, dh and these in, du and dx out
    return [
        ("forward, inference", infer, sets, 5 * io * T * B * D),
        ("forward, training", train, sets, (5 * io + state) * T * B * D),
        ("backward", backward, backward_sets, (9 * io + state) * T * B * D),
    ]


def fresh(make_one: Callable[[], list[Tensor]]) -> list[list[Tensor]]:
    """Input sets that together are at least 4 times the cache."""
    sets = [make_one()]
    size = sum(t.nbytes for t in sets[0])
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    return sets + [make_one() for _ in range(math.ceil(4 * cache / size))]


def milliseconds(function: Callable, sets: list[list[Tensor]], repeats: int) -> float:
    """The median time of function(*inputs), inputs in turn."""
    for inputs in sets[:2]:
        function(*inputs)
    events = []
    # kept, so that outputs, too, are written to memory that is not in the cache
    kept = [None] * len(sets)
    # the GPU sleeps until the CPU has queued the rest
    torch.cuda.synchronize()
    torch.cuda._sleep(4 * 10**6 * repeats)
    for i in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        kept[i % len(sets)] = function(*sets[i % len(sets)])
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def copy_bandwidth(repeats: int) -> float:
    """GB/s of a copy of 2 GiB within the GPU's memory, read and written."""
    source = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    sets = [[torch.empty_like(source), source]]
    time = milliseconds(lambda target, source: target.copy_(source), sets, repeats)
    return 2 * source.nbytes / time / 1e6


def compare_with_reference(dtype: torch.dtype, D: int) -> float:
    """The largest difference from the reference, relative to each tensor's range."""
    inputs = make(50, 4, D, dtype, device="cpu")
    results = []
    for device in ("cpu", "cuda"):
        leaves = [t.to(device).requires_grad_() for t in inputs]
        # the definition, as a GPU's machine may lack numba
        backend = "reference" if device == "cpu" else None
        h, _ = recurrence(*leaves, bidirectional=True, backend=backend)
        grads = torch.autograd.grad(h, leaves, torch.ones_like(h))
        results.append([h, *grads])
    tolerance = 2e-2 if dtype.itemsize == 2 else 1e-4
    return difference(results[1], results[0], tolerance)


def difference(actual: list[Tensor], expected: list[Tensor], tolerance: float) -> float:
    """The largest one, relative to the largest value of each tensor."""
    worst = 0.0
    for a, e in zip(actual, expected, strict=True):
        a, e = a.detach().double().cpu(), e.detach().double().cpu()
        relative = ((a - e).abs().max() / e.abs().max()).item()
        # NaN too, which max would pass over
        if not relative <= tolerance:
            raise SystemExit(
                f"error: results differ by {relative:.1e}; no time is reported."
            )
        worst = max(worst, relative)
    return worst


def for_sru(u: Tensor) -> Tensor:
    """(T, B, 3, D), gates forget, reset, candidate -> (T, B, 3 D), candidate first."""
    return u.roll(1, 2).transpose(2, 3).flatten(2).contiguous()


def from_sru(u: Tensor, x: Tensor) -> Tensor:
    """The inverse of `for_sru`, for x (T, B, D)."""
    return u.view(*x.shape, 3).transpose(2, 3).roll(-1, 2)
