"""Encoders side by side on one machine, in one run: speed, memory, share of the peak.

    python3 benchmarks/encoder.py BASE.yaml OTHER.yaml ... [--train] [--device cuda]

Each configuration is an ESPnet YAML (`encoder` and `encoder_conf` are read), and BASE
the one that the ratios are to. Random features, 10 ms a frame; times are medians of
alternating runs; memory is that of a run in a process of its own. Training steps keep a
CPU's from one to the next, as by espnet_srupp.run. Single utterances are of each of
--seconds, a batch has lengths spread evenly between the least and the most of them;
with --lengths there are five batches of a corpus, from short utterances to long ones,
of about as much audio each as --batch utterances have on average.
"""

import argparse
import statistics
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import machine
import torch
from encoder_meter import Meter, build
from encoder_parts import shares
from encoder_picture import draw

from espnet_srupp.compat import TooShortUttError
from espnet_srupp.heap import keep_freed
from espnet_srupp.profile import count_parameters, profile
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.table import read_table

LINE = (
    "{case:>14} {name:<32} {ms:9.1f} ms  {ratio:5.2f} x base  {gflops:7.1f} GFLOP/s "
    "({peak:4.1%} of peak)  {mib:7.0f} MiB"
)
PARTS = 5  # of a corpus, by length


def main() -> None:
    args = parse()
    if args.train:
        keep_freed()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    meter = Meter(args.device, getattr(torch, args.dtype), args.train)
    encoders = {path: load(path, args.train, meter) for path in args.configs}
    report = machine.describe("torch", "numba", "espnet")
    if args.device == "cuda":
        report["card"] = torch.cuda.get_device_name()
    report |= {key: getattr(args, key) for key in ("dtype", "threads", "train")}
    report["rows"], measured = [], []
    for case, ilens in cases(args).items():
        rows = compare(case, ilens, encoders, meter, args.repeats)
        for row in rows:
            print(LINE.format(**row), flush=True)
        report["rows"] += rows
        measured.append((case, ilens, rows))
        # a later case may take more memory than there is
        machine.write(report, args.json)
    # last, as a GPU's host starts kernels slower once torch's profiler has run
    for case, ilens, rows in measured:
        print(f"{case}, parts:")
        for row, given in zip(rows, encoders.values(), strict=True):
            row["parts"] = parts_of(given, ilens, meter)
        machine.write(report, args.json)
    if args.picture:
        draw(report, args.picture)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    add = parser.add_argument
    add("configs", metavar="CONFIG.yaml", nargs="+", type=machine.readable)
    add("--train", action="store_true", help="forward, backward and AdamW's step")
    lengths = {"nargs": "+", "help": "default: 10 60 150; batches: 10 15"}
    add("--seconds", type=machine.above_zero, **lengths)
    add(
        "--batch",
        type=machine.positive,
        help="utterances at once (default: 1; to train: 8)",
    )
    add("--lengths", type=machine.readable, help="utt2num_samples of a corpus, 16 kHz")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--dtype", choices=("float32", "bfloat16"), default="float32", help="autocast")
    add("--threads", type=machine.positive, default=2, help="on a CPU (default: 2)")
    add("--repeats", type=machine.positive, default=5, help="timed runs each (5)")
    add("--json", type=machine.writable, help="file for the figures")
    add("--picture", type=machine.picture, help="PNG file: bars of speed and memory")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU here")
    if len({*map(name_of, args.configs)}) < len(args.configs):
        parser.error(
            "two configurations have the same folder and file name: rename one"
        )
    if args.lengths and args.seconds:
        parser.error("--lengths tells how long utterances are: leave out --seconds")
    args.batch = args.batch or (8 if args.train else 1)
    args.seconds = args.seconds or ([10, 60, 150] if args.batch == 1 else [10, 15])
    return args


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem.removeprefix('train_asr_')}"


def load(path: Path, train: bool, meter: Meter) -> dict:
    """An encoder with what it is: parameters, and operations for so many frames."""
    encoder, input_size = build(path)
    # conditioning needs a CTC, which an encoder alone does not have
    encoder.interctc_use_conditioning = False
    return {
        "name": name_of(path),
        "encoder": encoder.to(meter.device).train(train),
        "input_size": input_size,
        "parameters": count_parameters(encoder),
    }


def cases(args: argparse.Namespace) -> dict[str, torch.Tensor]:
    """The frames of the utterances of each case, the longest first."""
    low, high = min(args.seconds), max(args.seconds)
    if args.lengths:
        found = batches(args.lengths, args.batch)
    elif args.batch == 1:
        found = {f"{s:g} s": [s] for s in args.seconds}
    else:
        spread = torch.linspace(high, low, args.batch).tolist()
        found = {f"{args.batch} x {low:g}-{high:g} s": spread}
    return {k: torch.tensor([round(100 * s) for s in v]) for k, v in found.items()}


def batches(path: Path, size: int) -> dict[str, list[float]]:
    """Batches of like lengths, from the middle of each part of a corpus."""
    table, found = read_table(path), {}
    for utterance, samples in table.items():
        if not (samples.isdecimal() and int(samples)):
            raise RecipeError(
                f"{path}: {utterance} has {samples} samples: give a number above 0"
            )
    seconds = sorted(int(samples) / 16000 for samples in table.values())
    for part in range(PARTS):
        middle = (2 * part + 1) * len(seconds) // (2 * PARTS)
        number = max(1, round(size * statistics.mean(seconds) / seconds[middle]))
        start = max(0, middle - number // 2)
        batch = seconds[start : start + number][::-1]
        found[f"{len(batch)} x {batch[-1]:.1f}-{batch[0]:.1f} s"] = batch
    return found


def prepare(given: dict, ilens: torch.Tensor, meter: Meter) -> Callable[[], None]:
    """A step that has run once."""
    xs_pad = torch.randn(len(ilens), int(ilens.max()), given["input_size"])
    run = meter.step(given["encoder"], xs_pad, ilens)
    try:
        meter.time(run)
    except TooShortUttError as error:
        raise RecipeError(f"{given['name']}: an utterance {error}") from error
    return run


def compare(
    case: str, ilens: torch.Tensor, encoders: dict, meter: Meter, repeats: int
) -> list[dict]:
    times: dict[Path, list[float]] = {path: [] for path in encoders}
    memory, peaks = {}, []
    for path, given in encoders.items():
        given["run"] = prepare(given, ilens, meter)
        memory[path] = memory_beside(path, given, ilens, meter)
        forget(given["encoder"])
    for _ in range(repeats):
        # in turn with the encoders, as what a shared machine gives comes and goes
        peaks.append(meter.peak())
        for path, given in encoders.items():
            times[path].append(meter.time(given["run"]))
            forget(given["encoder"])
    base, rows = None, []
    for path, given in encoders.items():
        del given["run"]  # its inputs and optimiser
        spent = statistics.median(times[path])
        base = base or spent
        gflops = flops(given, ilens, meter.train) / spent / 1e9
        rows.append(
            {"case": case, "name": given["name"], "parameters": given["parameters"]}
            | {"ms": 1e3 * spent, "ratio": base / spent, "times": times[path]}
            | {"gflops": gflops, "peak": gflops * 1e9 / statistics.median(peaks)}
            | {"mib": memory[path] / 2**20}
        )
    return rows


def parts_of(given: dict, ilens: torch.Tensor, meter: Meter) -> dict[str, float]:
    parts = shares(prepare(given, ilens, meter), meter.device)
    forget(given["encoder"])
    told = ", ".join(f"{k} {v:.0%}" for k, v in parts.items())
    print(f"    {given['name']:<32} {told or 'not measured'}", flush=True)
    return parts


def memory_beside(path: Path, given: dict, ilens: torch.Tensor, meter: Meter) -> int:
    """Peak bytes of a run; a GPU's allocator tells them whatever else is there."""
    if meter.device == "cuda":
        return memory_of(given["encoder"], given["run"], meter)
    # after larger models one takes more memory than by itself
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        threads = torch.get_num_threads()
        return pool.submit(memory_alone, path, ilens, meter, threads).result()


def memory_alone(path: Path, ilens: torch.Tensor, meter: Meter, threads: int) -> int:
    if meter.train:
        keep_freed()
    torch.set_num_threads(threads)
    given = load(path, meter.train, meter)
    return memory_of(given["encoder"], prepare(given, ilens, meter), meter)


def memory_of(encoder: torch.nn.Module, run: Callable, meter: Meter) -> int:
    # not of all modules, as with hooks on its own SRU++ runs without tiles of U
    keeping = [module for module in encoder.modules() if hasattr(module, "attn")]
    hooks = [m.register_forward_hook(lambda m, *_: let_go(m)) for m in keeping]
    meter.time(run)  # warm
    memory = meter.memory(run)
    for hook in hooks:
        hook.remove()
    return memory


def forget(encoder: torch.nn.Module) -> None:
    for module in encoder.modules():
        let_go(module)


def let_go(module: torch.nn.Module) -> None:
    """Frees the attention weights that ESPnet's layers keep, gigabytes of them.

    They could do without: only who draws them reads them.
    """
    if isinstance(getattr(module, "attn", None), torch.Tensor):
        module.attn = None


def flops(given: dict, ilens: torch.Tensor, train: bool) -> int:
    """Operations on real frames; backward takes twice those of forward."""
    size = given["input_size"]
    total = sum(profile(given["encoder"], size, n)[0].flops for n in ilens.tolist())
    return total * (3 if train else 1)


if __name__ == "__main__":
    # of torch's profiler, about what is not used here
    warnings.filterwarnings("ignore", module="torch.profiler")
    machine.run(main)
