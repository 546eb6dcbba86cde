"""sru's CUDA kernel and cuDNN's LSTM, timed beside the recurrence on one GPU.

PyPI's sru (`pip install --no-deps sru==3.0.0.dev6 ninja`, and nvcc) is built from its
own source with one change: PyTorch wants `.scalar_type()` where it has `.type()`.
"""

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from recurrence_cases import (
    backward,
    difference,
    for_sru,
    fresh,
    from_sru,
    infer,
    kernels,
    make,
    milliseconds,
    train,
)

from espnet_srupp.recurrence import cuda, recurrence

LONG = 9000, 1  # T and B: six minutes of audio


def rows(args: argparse.Namespace) -> Iterator[dict]:
    """One row for each kind of run, size and rival."""
    for name, rival in (("sru", beside_sru), ("LSTM", beside_lstm)):
        try:
            yield from rival(args)
        # whatever a rival fails by must not cost what the other is measured for
        except (Exception, SystemExit) as error:
            print(f"beside {name}: not measured: {error}", flush=True)


def sru_operators():
    """torch.ops.sru_cuda, built here; None without sru or nvcc."""
    from torch.utils import cpp_extension

    spec = importlib.util.find_spec("sru")
    # torch takes /usr/local/cuda for a toolkit even without its compiler
    home = cpp_extension.CUDA_HOME
    if spec is None or home is None or not Path(home, "bin", "nvcc").exists():
        return None
    # where they stay what torch built of them is built once
    folder = Path(cpp_extension.get_default_build_root(), "sru_cuda_sources")
    folder.mkdir(parents=True, exist_ok=True)
    sources = []
    for name in ("sru_cuda_impl.cpp", "sru_cuda_kernel.cu"):
        text = (Path(spec.origin).parent / "csrc" / name).read_text()
        text = text.replace(".type()", ".scalar_type()")
        sources.append(folder / name)
        if not sources[-1].exists() or sources[-1].read_text() != text:
            sources[-1].write_text(text)
    cpp_extension.load("sru_cuda", list(map(str, sources)), is_python_module=False)
    return torch.ops.sru_cuda


def beside_sru(args: argparse.Namespace) -> Iterator[dict]:
    operators = sru_operators()
    if operators is None:
        print("beside sru: not measured, because sru or nvcc is not installed")
        return

    def forward(u, x, v, b):
        T, B, D = x.shape
        c0, half = x.new_zeros(B, D), D // 2
        return operators.sru_bi_forward_simple(u, x, v, b, c0, None, None, T, B, half)

    def back(dh, dc_last, u, x, v, b, c):
        T, B, D = x.shape
        saved = u, x, v, b, x.new_zeros(B, D), None, None, c
        du, dx, dv, db, dc0 = operators.sru_bi_backward_simple(
            *saved, dh, dc_last, T, B, D // 2
        )
        return du, dx, dv.sum(1), db.sum(1), dc0

    for T, B in ((args.frames, args.batch), LONG):
        cases = kernels(T, B, args.size, torch.float32)
        sets = [[for_sru(u), x, v.flatten(), b.flatten()] for u, x, v, b in cases[0][2]]
        backward_sets = [
            [*ours[:2], *theirs, forward(*theirs)[1]]
            for ours, theirs in zip(cases[2][2], sets, strict=True)
        ]
        compare_with_sru(cases[2][2][0], backward_sets[0], forward, back)
        theirs = (forward, sets), (forward, sets), (back, backward_sets)
        for case, (function, their_inputs) in zip(cases, theirs, strict=True):
            name, ours, inputs, _ = case
            ms = milliseconds(ours, inputs, args.repeats)
            other_ms = milliseconds(function, their_inputs, args.repeats)
            yield beside(T, B, name, ms, "sru", other_ms)


def compare_with_sru(
    inputs: list, their_inputs: list, forward: Callable, back: Callable
) -> None:
    h, _, c = train(*inputs[2:6])
    their_h, their_c = forward(*their_inputs[2:6])
    difference([h, c], [their_h, kept(their_c)], 1e-4)
    du, *others = back(*their_inputs)
    du = from_sru(du, others[0])
    difference(list(backward(*inputs)), [du, *others], 1e-4)


def kept(c: torch.Tensor) -> torch.Tensor:
    """Of the states after each frame (T, B, D) those that the kernel saves."""
    T, _, D = c.shape
    to_come = cuda.EVERY * torch.arange(cuda.saved(T), device=c.device)
    forward, backward = c[T - 1 - to_come], c[to_come]
    return torch.cat([forward[..., : D // 2], backward[..., D // 2 :]], -1)


def beside(T: int, B: int, name: str, ms: float, other: str, other_ms: float) -> dict:
    row = {"T": T, "B": B, "name": name, "ms": ms, "other": other}
    return row | {"other_ms": other_ms, "ratio": other_ms / ms}


def beside_lstm(args: argparse.Namespace) -> Iterator[dict]:
    """cuDNN's LSTM of the same width, its matrix products among it, in float16."""
    D, dtype, repeats = args.size, torch.float16, max(args.repeats // 5, 3)
    lstm = torch.nn.LSTM(D, D // 2, bidirectional=True).to("cuda", dtype)

    def gradients(h, leaves):
        return torch.autograd.grad(h, leaves, torch.ones_like(h))

    def train_ours(u, x, v, b):
        leaves = [t.detach().requires_grad_() for t in (u, x, v, b)]
        return gradients(recurrence(*leaves, bidirectional=True)[0], leaves)

    def train_lstm(u, x, v, b):
        x = x.detach().requires_grad_()
        return gradients(lstm(x)[0], [x, *lstm.parameters()])

    @torch.no_grad()
    def infer_lstm(u, x, v, b):
        return lstm(x)[0]

    for T, B in ((args.frames, args.batch), LONG):
        sets = fresh(lambda T=T, B=B: make(T, B, D, dtype))
        for name, ours, theirs in (
            ("forward, inference", infer, infer_lstm),
            ("forward and backward", train_ours, train_lstm),
        ):
            ms = milliseconds(ours, sets, args.repeats)
            other_ms = milliseconds(theirs, sets, repeats)
            yield beside(T, B, name, ms, "LSTM", other_ms)
