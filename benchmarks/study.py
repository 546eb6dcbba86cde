"""A table and pictures of trained variants, each over its seeds, from their folders.

    python3 benchmarks/study.py VARIANT=EXP ... --out DIR

EXP is an experiment's folder that run.sh has trained and scored; a VARIANT named
several times is one model with several seeds. Writes study.md (parameters, GFLOPs,
epochs until the CTC error on the validation set is below half, time per epoch, error
rates as mean and spread), curves.png and, of SRU++, alpha.png.
"""

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path

import machine
import numpy as np
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from espnet_srupp.profile import build_encoder, count_parameters, profile
from espnet_srupp.recipe import alphas, epochs, results
from espnet_srupp.recipe.check import HOP_LENGTH
from espnet_srupp.recipe.epochs import Epoch
from espnet_srupp.recipe.errors import RecipeError

# of 10 s at 16 kHz
SAMPLES = 160000


@dataclass(frozen=True)
class Run:
    """One experiment: its epochs, alphas by epoch, and WER of each set as decoded."""

    epochs: list[Epoch]
    alphas: dict[int, list[float]]
    wer: dict[str, float]


def main() -> None:
    args = parse()
    folders: dict[str, list[Path]] = {}
    for name, path in args.runs:
        folders.setdefault(name, []).append(Path(path))
    study = {name: [read(exp) for exp in exps] for name, exps in folders.items()}
    args.out.mkdir(parents=True, exist_ok=True)
    sizes = {name: size(exps[0]) for name, exps in folders.items()}
    table = markdown(study, sizes)
    (args.out / "study.md").write_text(table)
    print(table)
    curves(study).savefig(args.out / "curves.png", dpi=120)
    if any(run.alphas for runs in study.values() for run in runs):
        alpha(study).savefig(args.out / "alpha.png", dpi=120)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    parser.add_argument("runs", metavar="VARIANT=EXP", nargs="+", type=machine.named)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    return parser.parse_args()


def read(exp: Path) -> Run:
    trained = epochs.read(epochs.logs(exp))
    if not trained:
        raise RecipeError(f"{exp} has no finished epoch: train it first")
    found = results.found(exp, "wer")
    rates = {decoded(exp, path): error_rate(path) for path in found}
    return Run(trained, alphas.read(exp), rates)


def decoded(exp: Path, path: Path) -> str:
    """The set and how it was decoded, as in `test, decode_asr_ctc_weight0.5`."""
    # of the usual checkpoint, which is named where it is another one
    decoding = path.relative_to(exp).parts[0].removesuffix("_asr_model_valid.acc.ave")
    return f"{path.parents[1].name}, {decoding}"


def error_rate(path: Path) -> float:
    """Err of the line Sum/Avg of a result.txt."""
    (line,) = (line for line in path.read_text().split("\n") if "Sum/Avg" in line)
    return float(line.replace("|", " ").split()[-2])


def size(exp: Path) -> tuple[float, float]:
    """Millions of parameters of the encoder, and GFLOPs for 10 s."""
    config = yaml.safe_load((exp / "config.yaml").read_text())
    encoder, input_size = build_encoder(config)
    frames = SAMPLES // config["frontend_conf"].get("hop_length", HOP_LENGTH)
    flops = profile(encoder, input_size, frames)[0].flops
    return count_parameters(encoder) / 1e6, flops / 1e9


def markdown(study: dict[str, list[Run]], sizes: dict) -> str:
    sets = list(
        dict.fromkeys(s for runs in study.values() for r in runs for s in r.wer)
    )
    head = ["variant", "seeds", "parameters", "GFLOPs for 10 s", "epochs"]
    head += ["CTC error under 0.5 at epoch", "s per epoch", *(f"WER {s}" for s in sets)]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name, runs in study.items():
        cells = [
            name,
            str(len(runs)),
            f"{sizes[name][0]:.2f} M",
            f"{sizes[name][1]:.2f}",
        ]
        cells += [spread([len(run.epochs) for run in runs], ".0f")]
        cells += [spread([below_half(run.epochs) for run in runs], ".0f")]
        each = [statistics.median(e.seconds for e in run.epochs) for run in runs]
        cells += [spread(each, ".0f")]
        cells += [spread([run.wer.get(s) for run in runs], ".1f") for s in sets]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def below_half(trained: list[Epoch]) -> int | None:
    """The first epoch whose CTC makes less than one error in two tokens."""
    return next((e.number for e in trained if e.valid.get("cer_ctc", 1) < 0.5), None)


def spread(values: list[float | None], form: str) -> str:
    """The mean, and of several values which differ the deviation."""
    if None in values:
        return "-"
    mean = f"{statistics.mean(values):{form}}"
    if len(set(values)) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values):{form}}"


def curves(study: dict[str, list[Run]]) -> Figure:
    """CTC loss and accuracy on the validation set by epoch, a line for each seed.

    Not the CTC's error: ESPnet's counts padded frames, and only SRU++ makes up for it.
    """
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, key, title in zip(
        panels,
        ("loss_ctc", "acc"),
        ("loss of the CTC (valid)", "accuracy of the decoder (valid)"),
        strict=True,
    ):
        for number, (name, runs) in enumerate(study.items()):
            for run in runs:
                values = [epoch.valid.get(key, np.nan) for epoch in run.epochs]
                line(axes, [e.number for e in run.epochs], values, number, name)
        finish(axes, title)
    explain(figure, axes)
    return figure


def alpha(study: dict[str, list[Run]]) -> Figure:
    """The largest |alpha| of all layers by epoch, a line for each seed."""
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.subplots()
    for number, (name, runs) in enumerate(study.items()):
        for run in runs:
            values = [max(map(abs, layers)) for layers in run.alphas.values()]
            line(axes, list(run.alphas), values, number, name)
    finish(axes, "largest |alpha| of the layers")
    explain(figure, axes)
    return figure


def line(axes: Axes, places: list, values: list, number: int, name: str) -> None:
    # there are ten colours
    look = {"color": f"C{number % 10}", "linestyle": ("-", "--", ":")[number // 10 % 3]}
    axes.plot(places, values, label=name, linewidth=1.2, **look)


def finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("epoch")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def explain(figure: Figure, axes: Axes) -> None:
    """A legend beside the panels, with one entry for all seeds of a variant."""
    handles, names = axes.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    place = {"loc": "outside right center", "fontsize": 8, "frameon": False}
    figure.legend(unique.values(), unique.keys(), **place)


if __name__ == "__main__":
    machine.run(main)
