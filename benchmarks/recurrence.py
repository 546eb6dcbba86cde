"""The recurrence beside PyPI's sru on one machine, in one run, with equal results.

    python3 benchmarks/recurrence.py [--frames 400] [--batch 16] [--size 3328]

Needs `pip install sru==3.0.0.dev6 ninja` and g++, which sru calls when imported. Times
are medians of alternating runs; GB/s counts each input and output once. With --device
cuda, recurrence_cuda.py runs instead.
"""

import argparse
import os
import shutil
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import machine
import torch
from recurrence_cases import difference, for_sru, from_sru, make

from espnet_srupp.recurrence import recurrence

LINE = (
    "{name}: {ms:.1f} ms, {ns:.2f} ns per element, {gbs:.1f} GB/s; "
    "sru {sru_ms:.1f} ms, {sru_ns:.2f} ns, {sru_gbs:.2f} GB/s; "
    "{ratio:.1f} times sru's speed; largest relative difference {difference:.1e}"
)


def main() -> None:
    args = parse()
    if args.device == "cuda":
        import recurrence_cuda

        recurrence_cuda.main(args)
        return
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    report = machine.describe("torch", "numba", "sru")
    sizes = {key: getattr(args, key) for key in ("frames", "batch", "size", "threads")}
    report |= sizes | {"dtype": "float32", "rows": []}
    inputs = make(args.frames, args.batch, args.size, torch.float32, device="cpu")
    # floats moved per element: u, x read and h written; then also c written, and
    # u, x, c, dh read, du, dx written
    for name, floats, repeats, run in (
        ("forward", 5, args.repeats, infer),
        ("forward and backward", 6 + 6 + 4, args.train_repeats, train),
    ):
        row = {"name": name} | compare(run, inputs, repeats, floats)
        report["rows"].append(row)
        print(LINE.format(**row), flush=True)
        machine.write(report, args.json)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    count = machine.positive
    parser.add_argument("--frames", type=count, default=400, help="(400)")
    parser.add_argument("--batch", type=count, default=16, help="(16)")
    parser.add_argument("--size", type=count, default=3328, help="(3328)")
    parser.add_argument("--repeats", type=count, help="runs (CPU 9, GPU 50)")
    where = "file for the figures; a GPU's picture lies beside it"
    parser.add_argument("--json", type=machine.writable, help=where)
    cpu = parser.add_argument_group("on a CPU")
    cpu.add_argument("--threads", type=count, default=2, help="(2)")
    cpu.add_argument(
        "--train-repeats", type=count, default=3, help="runs with gradients (3)"
    )
    gpu = parser.add_argument_group("on a GPU")
    gpu.add_argument("--sweep", action="store_true", help="time every launch geometry")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU here")
    if args.size % 2:
        parser.error(
            f"--size {args.size}: give an even number, half for each direction"
        )
    if args.device == "cpu" and args.sweep:
        parser.error("--sweep is for a GPU: give --device cuda, or leave it out")
    if args.device == "cpu" and (absent := missing()):
        parser.error(f"no {', no '.join(absent)}: pip install sru==3.0.0.dev6 ninja")
    args.repeats = args.repeats or (9 if args.device == "cpu" else 50)
    return args


def missing() -> list[str]:
    """What sru is made of, as far as it is not here."""
    compiler = os.environ.get("CXX", "c++")
    tools = [tool for tool in ("ninja", compiler) if shutil.which(tool) is None]
    return [*([] if find_spec("sru") else ["sru"]), *tools]


def ours(u, x, v, b) -> torch.Tensor:
    return recurrence(u, x, v, b, bidirectional=True)[0]


def sru(u, x, v, b) -> torch.Tensor:
    """sru's entry: its C++ kernel, or a Python loop where gradients are wanted."""
    from sru.ops import elementwise_recurrence_naive

    _, B, D = x.shape
    c0, identity, skip = x.new_zeros(B, D), 0, True
    flat = v.reshape(-1), b.reshape(-1)
    return elementwise_recurrence_naive(u, x, *flat, c0, identity, D // 2, True, skip)[
        0
    ]


def infer(function: Callable, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [function(*inputs)]


def train(function: Callable, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    leaves = [t.detach().requires_grad_() for t in inputs]
    h = function(*leaves)
    return [h, *torch.autograd.grad(h, leaves, torch.ones_like(h))]


def compare(run: Callable, inputs: list, repeats: int, floats: int) -> dict:
    T, B, D = inputs[1].shape
    theirs = [for_sru(inputs[0]), *inputs[1:]]
    # compiled, if not cached
    run(ours, inputs)
    infer(sru, theirs)
    times, sru_times = [], []
    for _ in range(repeats):
        actual = timed(times, run, ours, inputs)
        expected = timed(sru_times, run, sru, theirs)
    if len(expected) > 1:
        expected[1] = from_sru(expected[1], inputs[1])
    seconds, sru_seconds = statistics.median(times), statistics.median(sru_times)
    nano = 1e9 / (T * B * D)
    return {
        "ms": seconds * 1e3,
        "ns": seconds * nano,
        "gbs": 4 * floats / (seconds * nano),
        "sru_ms": sru_seconds * 1e3,
        "sru_ns": sru_seconds * nano,
        "sru_gbs": 4 * floats / (sru_seconds * nano),
        "ratio": sru_seconds / seconds,
        "difference": difference(actual, expected, 1e-4),
        "repeats": repeats,
    }


def timed(times: list[float], run: Callable, *args) -> list[torch.Tensor]:
    start = time.perf_counter()
    result = run(*args)
    times.append(time.perf_counter() - start)
    return result


if __name__ == "__main__":
    # torch.jit, which sru uses, warns that it is deprecated
    warnings.filterwarnings("ignore", module="torch.jit|sru")
    machine.run(main)
