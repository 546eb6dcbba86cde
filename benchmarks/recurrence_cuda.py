"""The recurrence on a GPU: its bandwidth, and its time beside sru's and cuDNN's.

    python3 benchmarks/recurrence.py --device cuda [--frames 400] [--batch 16] [--sweep]

Times are medians over runs on fresh inputs, together larger than the GPU's cache, by
CUDA events, of the GPU alone: it is kept busy while the host makes the calls. Bytes
count each input and output once; what is possible is the bandwidth of a large copy,
measured in the same run. Results are compared before anything is timed, with the plain
torch reference and with sru.
"""

import argparse
import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import machine
import recurrence_beside
import torch
from recurrence_cases import (
    compare_with_reference,
    copy_bandwidth,
    kernels,
    milliseconds,
    name_of,
)

from espnet_srupp.recurrence import cuda

FRAMES, BATCHES = (100, 400, 1600, 9000), (1, 4, 16, 64)
ROW = (
    "{dtype:9}T {T:<5}B {B:<3}{name:20}{ms:9.3f} ms{gbs:7.0f} GB/s, {share:.0%} of copy"
)
BESIDE = (
    "T {T:<5}B {B:<3}{name:21}{ms:9.3f} ms, {other} {other_ms:.3f} ms: {ratio:.1f} x"
)
SWEPT = (
    "{dtype:9}{name:20}{channels} channels, {frames:2} frames ahead: {ms:.3f} ms{mark}"
)


def main(args: argparse.Namespace) -> None:
    torch.manual_seed(0)
    # which tells what to do where CuPy is missing
    differences = {
        name_of(dtype): compare_with_reference(dtype, args.size) for dtype in cuda.NAMES
    }
    copy = copy_bandwidth(args.repeats)
    report = describe() | {"size": args.size, "copy_gbs": copy}
    report |= {"differences": differences, "rows": [], "beside": []}
    print(f"{report['card']}: a copy moves {copy:.0f} GB/s", flush=True)
    # after each row, as a rival that fails or a limit of time must not cost the others
    if args.sweep:
        report["sweep"] = []
        for row in sweep(args):
            report["sweep"].append(row)
            machine.write(report, args.json)
        return
    for row in measure_all(args, copy):
        report["rows"].append(row)
        print(ROW.format(**row), flush=True)
        machine.write(report, args.json)
    for row in recurrence_beside.rows(args):
        report["beside"].append(row)
        print(BESIDE.format(**row), flush=True)
        machine.write(report, args.json)
    if args.json is None:
        return
    if importlib.util.find_spec("matplotlib") is None:
        print("no picture, as matplotlib is not installed")
        return
    draw(report, args.json.with_suffix(".png"))


def describe() -> dict:
    import cupy

    properties = torch.cuda.get_device_properties(0)
    return machine.describe("torch") | {
        "card": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "cache_bytes": properties.L2_cache_size,
        "cuda": torch.version.cuda,
        "cupy": cupy.__version__,
    }


def measure_all(args: argparse.Namespace, copy: float) -> Iterator[dict]:
    shapes = set(itertools.product(FRAMES, BATCHES)) | {(args.frames, args.batch)}
    for dtype in (torch.bfloat16, torch.float32):
        for T, B in sorted(shapes):
            if T * B > 2**17:  # takes too much memory
                continue
            for name, function, sets, size in kernels(T, B, args.size, dtype):
                ms = milliseconds(function, sets, args.repeats)
                gbs = size / ms / 1e6
                row = {"dtype": name_of(dtype), "T": T, "B": B, "name": name}
                yield row | {"ms": ms, "gbs": gbs, "share": gbs / copy}


def sweep(args: argparse.Namespace) -> Iterator[dict]:
    """Times every geometry; `cuda.choose` should take the fastest, marked *."""
    for dtype in (torch.bfloat16, torch.float32):
        cases = kernels(args.frames, args.batch, args.size, dtype)
        for name, function, sets, _ in cases:
            with mock.patch.object(cuda, "choose", wraps=cuda.choose) as chosen:
                function(*sets[0])
            _, _, fetched, io, together, _ = chosen.call_args.args
            chosen = cuda.choose(*chosen.call_args.args)
            for channels, frames in itertools.product((1, 2, 4), (*cuda.FRAMES, 4)):
                geometry = cuda.Geometry(channels, frames, chosen.copied)
                ring = channels * frames * fetched * cuda.WARP
                least = max(8 // channels, 2 * together)
                fits = args.size // 2 % channels == 0 and channels * io <= cuda.WIDE
                if ring > cuda.RING_BYTES or frames < least or not fits:
                    continue
                with mock.patch.object(cuda, "choose", return_value=geometry):
                    ms = milliseconds(function, sets, args.repeats)
                row = geometry._asdict() | {"dtype": name_of(dtype), "name": name}
                mark = " *" if geometry == chosen else ""
                print(SWEPT.format(ms=ms, mark=mark, **row), flush=True)
                yield row | {"ms": ms}


def draw(report: dict, target: Path) -> None:
    """Time and bandwidth over T, a line for each B, bfloat16."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, name in enumerate(("forward, training", "backward")):
        for B in BATCHES:
            rows = [
                row
                for row in report["rows"]
                if (row["dtype"], row["B"], row["name"]) == ("bfloat16", B, name)
            ]
            T = [row["T"] for row in rows]
            for axis, key in zip(axes[:, column], ("ms", "share"), strict=True):
                axis.plot(T, [row[key] for row in rows], marker="o", label=f"B {B}")
                axis.set_xscale("log")
        axes[0, column].set_title(f"{name}, bfloat16, D {report['size']}")
        axes[0, column].set_yscale("log")
        axes[1, column].set_xlabel("frames")
    axes[0, 0].set_ylabel("ms")
    axes[1, 0].set_ylabel("share of the bandwidth of a copy")
    axes[1, 0].set_ylim(0, 1)
    axes[0, 0].legend()
    figure.suptitle(f"{report['card']}, {report['date']}, {report['commit']}")
    figure.savefig(target, dpi=150)
