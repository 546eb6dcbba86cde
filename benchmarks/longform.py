"""Time and memory of transcribing ever longer recordings in one pass, model by model.

    cd recipes/an4/asr1
    python3 ../../../benchmarks/longform.py DATA MODEL=EXP ... [--minutes 1 3 10 30 60]
        [--dtype bfloat16]

DATA is a data directory of the recipe (wav.scp); its utterances are joined in order,
and over again if need be, to recordings of so many minutes. Each is transcribed by
`longform transcribe` in a process of its own, which may take --limit-gib of memory and
--timeout seconds; what needs more is told as failed, and longer recordings are not
tried with that model.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
import soundfile
from longform_picture import draw

from espnet_srupp.recipe.table import read_table

MODULE = "espnet_srupp.longform"
LINE = "{model:<12} {minutes:6g} min: {said}"


def main() -> None:
    args = parse()
    report = machine.describe("torch", "numba", "espnet")
    report |= {key: getattr(args, key) for key in ("threads", "dtype", "limit_gib")}
    report["rows"] = []
    failed: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for minutes in sorted(args.minutes):
            audio = Path(folder, f"{minutes:g}min.wav")
            join(args.data, audio, 60 * minutes)
            for model, exp in args.models.items():
                if model in failed:
                    continue
                row = {
                    "model": model,
                    "minutes": minutes,
                    "audio_seconds": 60 * minutes,
                }
                row |= transcribe(exp, audio, Path(folder, model, audio.stem), args)
                if "failed" in row:
                    failed.add(model)
                report["rows"].append(row)
                print(LINE.format(**row, said=said(row)), flush=True)
                machine.write(report, args.json)
            audio.unlink()
    if args.picture:
        draw(report, args.picture)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    add = parser.add_argument
    add("data", metavar="DATA", type=Path)
    machine.add_named(parser, "models", "MODEL=EXP")
    add("--minutes", type=machine.above_zero, nargs="+", default=[1, 3, 10, 30, 60])
    amount = machine.above_zero
    add("--limit-gib", type=amount, default=12, help="memory each (default: 12)")
    add("--timeout", type=amount, default=1800, help="seconds each (default: 1800)")
    add("--threads", type=machine.positive, default=2, help="default: 2")
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add("--json", type=machine.writable, help="file for the figures")
    add(
        "--picture",
        type=machine.picture,
        help="PNG file for time and memory over length",
    )
    args = parser.parse_args()
    for exp in args.models.values():
        if not Path(exp).exists():
            parser.error(f"there is no experiment {exp}")
    return args


def join(data: Path, target: Path, seconds: float) -> None:
    """Writes so many seconds of a data directory's audio."""
    paths = [*read_table(data / "wav.scp").values()]
    rate = soundfile.info(paths[0]).samplerate
    left = round(seconds * rate)
    with soundfile.SoundFile(target, "w", rate, 1, "PCM_16") as file:
        endless = itertools.cycle(paths)
        while left:
            samples = soundfile.read(next(endless), dtype="int16")[0][:left]
            file.write(samples)
            left -= len(samples)


def transcribe(exp: str, audio: Path, out: Path, args: argparse.Namespace) -> dict:
    words = [sys.executable, "-m", MODULE, "transcribe", exp, str(audio)]
    limit = round(args.limit_gib * 2**30)
    try:
        done = subprocess.run(
            [*words, "--out", str(out), "--device", "cpu", "--dtype", args.dtype],
            env={**os.environ, "OMP_NUM_THREADS": str(args.threads)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
            capture_output=True,
            text=True,
            timeout=args.timeout,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {args.timeout:g} s"}
    if done.returncode:
        *_, said = ["killed", *done.stderr.strip().splitlines()]
        return {"failed": said.replace(f"{audio.parent}/", "")}
    (line,) = (out / "longform.jsonl").read_text().splitlines()
    found = json.loads(line)
    return {name: found[name] for name in ("computing_seconds", "peak_bytes")}


def said(row: dict) -> str:
    if "failed" in row:
        return f"failed: {row['failed']}"
    speed = row["audio_seconds"] / row["computing_seconds"]
    return (
        f"{row['computing_seconds']:8.1f} s, {speed:6.1f} times real time, "
        f"{row['peak_bytes'] / 2**30:6.2f} GiB"
    )


if __name__ == "__main__":
    machine.run(main)
