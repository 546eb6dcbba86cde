"""An encoder of ONNX in onnxruntime beside the same one in torch, on a CPU.

    python3 benchmarks/onnx_runtime.py conf/aishell/train_asr_srupp.yaml --seconds 10 60

Times are medians of alternating runs on one utterance of random features, each with as
many threads as torch has. Outputs are compared before they are timed.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import machine
import torch
from encoder_meter import build
from recurrence_cases import difference

from espnet_srupp import onnx
from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.recipe.errors import RecipeError

NEEDED = "onnxruntime", "onnxscript"
FRAMES = 100  # a second
TOLERANCE = 1e-3


def main() -> None:
    args = parse()
    torch.manual_seed(0)
    encoder, features = build(args.config)
    if not isinstance(encoder, SRUppEncoder):
        raise RecipeError(f"{args.config} has another encoder: give one with srupp")
    encoder.eval()
    report = machine.describe("torch", *NEEDED)
    report |= {"threads": torch.get_num_threads(), "rows": []}
    with TemporaryDirectory() as folder, torch.inference_mode():
        ways = {"torch": encoder, "onnx": runtime(encoder, Path(folder, "e.onnx"))}
        for seconds in args.seconds:
            row = measure(ways, seconds, features, args.repeats)
            report["rows"].append(row)
            print(
                "{seconds} s: torch {torch_ms:.0f} ms, onnxruntime {onnx_ms:.0f} ms, "
                "{speed:.2f} x torch's speed".format(**row),
                flush=True,
            )
            machine.write(report, args.json)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    add = parser.add_argument
    add("config", type=machine.readable, help="a YAML file with encoder: srupp")
    add("--seconds", type=machine.positive, nargs="+", default=[10, 60])
    add("--repeats", type=machine.positive, default=5, help="timed runs each (5)")
    add("--json", type=machine.writable, help="file for the figures")
    args = parser.parse_args()
    if missing := [each for each in NEEDED if find_spec(each) is None]:
        parser.error(f"{' and '.join(missing)}: pip install {' '.join(NEEDED)}")
    return args


def runtime(encoder: torch.nn.Module, path: Path) -> Callable:
    """The encoder as it runs in onnxruntime, called as it is in torch."""
    import onnxruntime

    try:
        with torch.inference_mode(False):
            onnx.export(encoder, path)
    except ValueError as error:
        raise RecipeError(error) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options)

    def run(xs_pad: torch.Tensor, ilens: torch.Tensor) -> list[torch.Tensor]:
        given = {"xs_pad": xs_pad.numpy(), "ilens": ilens.numpy()}
        return [torch.from_numpy(array) for array in session.run(None, given)]

    return run


def measure(
    ways: dict[str, Callable], seconds: int, features: int, repeats: int
) -> dict[str, float]:
    frames = FRAMES * seconds
    batch = torch.randn(1, frames, features), torch.tensor([frames])
    outputs = ([way(*batch)[0]] for way in ways.values())
    row = {"seconds": seconds, "difference": difference(*outputs, TOLERANCE)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way(*batch)
            times[name].append(time.perf_counter() - start)
    medians = {f"{name}_ms": 1e3 * statistics.median(t) for name, t in times.items()}
    return row | medians | {"speed": medians["torch_ms"] / medians["onnx_ms"]}


if __name__ == "__main__":
    machine.run(main)
