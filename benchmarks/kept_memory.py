"""Training steps with freed memory kept (espnet_srupp/heap.py) and without.

    python3 benchmarks/kept_memory.py CONFIG.yaml [--steps 5] [--json REPORT.json]

Two processes train the encoder of an ESPnet YAML side by side, each with half of the
processors, with freed memory kept in one of them; then once more, with their processors
exchanged. Both take the same steps on the same 8 utterances of 10 to 15 s, and have to
have the same parameters at the end.
"""

import argparse
import hashlib
import os
import resource
import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import machine
import torch
from encoder_meter import Meter, build

from espnet_srupp.heap import keep_freed

LINE = (
    "{0:>14}: {ms:.0f} ms, {faults:.0f} page faults and {system:.2f} s of the system a "
    "step, {mib:.0f} MiB at most"
)


def main() -> None:
    args = parse()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise SystemExit("error: there is one processor: two processes need two.")
    half = len(cpus) // 2
    halves = cpus[:half], cpus[half : 2 * half]
    report = machine.describe("torch", "numba") | {"threads": half, "rows": []}
    for first, second in (halves, halves[::-1]):
        report["rows"].append(pair(args.config, args.steps, first, second))
        machine.write(report, args.json)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    parser.add_argument("config", metavar="CONFIG.yaml", type=machine.readable)
    parser.add_argument("--steps", type=machine.positive, default=5, help="timed (5)")
    parser.add_argument("--json", type=machine.writable, help="file for the figures")
    return parser.parse_args()


def pair(path: Path, steps: int, first: list[int], second: list[int]) -> dict:
    """What both processes measured, the first one without keeping."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        runs = [
            pool.submit(train, path, steps, cpus, keep)
            for cpus, keep in ((first, False), (second, True))
        ]
        plain, kept = (run.result() for run in runs)
    if plain.pop("parameters") != kept.pop("parameters"):
        raise SystemExit("error: the two processes end with different parameters.")
    ratio = kept["ms"] / plain["ms"]
    print(LINE.format("given back", **plain))
    print(LINE.format("kept", **kept) + f", {ratio:.2f} of the time", flush=True)
    return {"given_back": plain, "kept": kept, "ratio": ratio}


def train(path: Path, steps: int, cpus: list[int], keep: bool) -> dict:
    """Trains on these processors; what a step took, and which parameters came out."""
    os.sched_setaffinity(0, cpus)
    torch.set_num_threads(len(cpus))
    torch.manual_seed(0)
    if keep and not keep_freed():
        raise SystemExit(
            "error: this C library keeps nothing, or the environment says so."
        )
    encoder, input_size = build(path)
    ilens = torch.linspace(1500, 1000, 8).long()
    meter = Meter("cpu", torch.float32, train=True)
    step = meter.step(encoder.train(), torch.randn(8, 1500, input_size), ilens)
    step()
    before = resource.getrusage(resource.RUSAGE_SELF)
    times = [meter.time(step) for _ in range(steps)]
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "ms": 1e3 * statistics.median(times),
        "times": times,
        "faults": (after.ru_minflt - before.ru_minflt) / steps,
        "system": (after.ru_stime - before.ru_stime) / steps,
        "mib": after.ru_maxrss / 2**10,
        "parameters": digest(encoder),
    }


def digest(encoder: torch.nn.Module) -> str:
    parameters = (p.detach().numpy().tobytes() for p in encoder.parameters())
    return hashlib.sha256(b"".join(parameters)).hexdigest()


if __name__ == "__main__":
    machine.run(main)
