"""Attention by tiles of queries beside SDPA's kernels, by head size and frames.

    python3 benchmarks/attention.py [--device cuda] [--dtype bfloat16] [--sizes 272 416]

What `espnet_srupp.softmax.fused` should choose: times are medians of alternating
runs, of inference and of a step (forward and backward), the host's share included, on a
batch whose last utterance is three quarters as long. Frames should be a multiple of 8,
as the layer pads its keys for tiles on a GPU. Results are compared before they
are timed. Where SDPA would build all scores it is refused.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from unittest import mock

import machine
import torch
from recurrence_cases import difference
from torch import Tensor
from torch.nn.attention import SDPBackend

from espnet_srupp import softmax

ROW = (
    "head size {size:<4} T {frames:<6}{what:10}tiles {tiles_ms:8.2f} ms, SDPA {sdpa}; "
    "chosen: {chosen}"
)
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}
WAYS = {"tiles": False, "sdpa": True}


def main() -> None:
    args = parse()
    torch.manual_seed(0)
    report = machine.describe("torch")
    if args.device == "cuda":
        report["card"] = torch.cuda.get_device_name()
    report |= {"dtype": args.dtype, "batch": args.batch, "rows": []}
    report["threads"] = torch.get_num_threads()
    for size, frames in itertools.product(args.sizes, args.frames):
        for row in measure(args, size, frames):
            report["rows"].append(row)
            show(row)
            machine.write(report, args.json)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    add("--sizes", type=machine.positive, nargs="+", default=[64, 272, 416])
    add("--frames", type=machine.positive, nargs="+", default=[248, 1000, 3752])
    add("--batch", type=machine.positive, default=2, help="utterances (default: 2)")
    add("--repeats", type=machine.positive, default=5, help="timed runs each (5)")
    add("--json", type=machine.writable, help="file for the figures")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU here")
    return args


def measure(args: argparse.Namespace, size: int, frames: int) -> Iterator[dict]:
    dtype = getattr(torch, args.dtype)
    shape = args.batch, 1, frames, size
    *inputs, grad = torch.randn(4, *shape, device=args.device).to(dtype)
    lengths = torch.full((args.batch,), frames, device=args.device)
    lengths[-1] = -(-frames * 3 // 4)
    keys = torch.arange(frames, device=args.device) < lengths[:, None]

    def infer(way: str) -> list[Tensor]:
        with torch.no_grad(), by(way):
            return [softmax.attend(*inputs, keys)]

    def step(way: str) -> list[Tensor]:
        leaves = [t.detach().requires_grad_() for t in inputs]
        with by(way):
            out = softmax.attend(*leaves, keys)
        return [out, *torch.autograd.grad(out, leaves, grad)]

    for what, run in (("inference", infer), ("step", step)):
        with torch.set_grad_enabled(what == "step"):
            chosen = "sdpa" if softmax.fused(inputs[0], 0.0) else "tiles"
        row = {"size": size, "frames": frames, "what": what, "chosen": chosen}
        ways = [*WAYS]
        try:
            row["difference"] = difference(run("sdpa"), run("tiles"), TOLERANCE[dtype])
        except RuntimeError as error:
            if "No available kernel" not in str(error):
                raise
            ways = ["tiles"]
        yield row | medians(run, ways, args)


def by(way: str) -> mock._patch:
    """SDPA without its kernel that builds all scores, or tiles."""
    kernels = [k for k in softmax.KERNELS if k != SDPBackend.MATH]
    return mock.patch.multiple(softmax, fused=lambda *_: WAYS[way], KERNELS=kernels)


def medians(run: Callable, ways: list[str], args: argparse.Namespace) -> dict:
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number, way in itertools.product(range(args.repeats + 1), ways):
        wait(args.device)
        start = time.perf_counter()
        run(way)
        wait(args.device)
        if number > 0:  # after a warm one
            times[way].append(time.perf_counter() - start)
    return {f"{way}_ms": 1e3 * statistics.median(t) for way, t in times.items()}


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def show(row: dict) -> None:
    sdpa = "refuses"
    if "sdpa_ms" in row:
        ratio = row["tiles_ms"] / row["sdpa_ms"]
        sdpa = f"{row['sdpa_ms']:8.2f} ms, {ratio:.2f} x the speed"
    print(ROW.format(sdpa=sdpa, **row), flush=True)


if __name__ == "__main__":
    machine.run(main)
