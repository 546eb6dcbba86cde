"""Draws what `score` found: error rate over length, and its kinds of errors.

SCORES.json is what `score --out` wrote. Makes <unit>_by_length and <unit>_errors in the
folder of --out, each as .png and .svg: the rate of all models by length with the 95 %
intervals shaded (as Fig. 3 of Pan et al., arXiv 2110.05571), and each model's
deletions, insertions and substitutions, stacked.
"""

import argparse
import re
from pathlib import Path
from unicodedata import east_asian_width

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from espnet_srupp.longform import table
from espnet_srupp.longform.counting import UNITS
from espnet_srupp.longform.table import ALL, Cell
from espnet_srupp.recipe import files, fonts
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_file
from espnet_srupp.recipe.pictures import plain

NAMES = {"wer": "word error rate (%)", "cer": "character error rate (%)"}
# palettes that the colour-blind can read too: Tol's, in the order of the stack
KINDS = {"deletions": "#332288", "insertions": "#DDCC77", "substitutions": "#BBBBBB"}
# and Okabe and Ito's
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP"
# of seconds, as `cells.by_length` writes it
RANGE = re.compile(r"^([\d.e+]+)-([\d.e+]+)$")


def options(parser: argparse.ArgumentParser) -> None:
    """The command line of `plot`."""
    parser.add_argument("scores", metavar="SCORES.json", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True)
    parser.add_argument(
        "--unit", choices=UNITS, default="wer", help="default: %(default)s"
    )


def run(given: argparse.Namespace) -> None:
    """Draws as the command line says.

    Raises:
        RecipeError: the scores are missing or are something else.
    """
    cells = [
        cell
        for cell in table.read(given.scores).cells
        if cell.unit == given.unit and cell.bin != ALL
    ]
    if not cells:
        raise RecipeError(f"{given.scores} holds no scores by length: make it again")
    files.claim(given.out)
    with fonts.having("".join(f"{cell.model}{cell.bin}" for cell in cells)):
        save(rate_by_length(cells), given.out, f"{given.unit}_by_length")
        save(kinds_of_errors(cells), given.out, f"{given.unit}_errors")


def rate_by_length(cells: list[Cell]) -> Figure:
    """The rate of every model over the bins, with its interval."""
    models, bins = by_model(cells), names_of_bins(cells)
    columns = min(len(models), int(width(cells) / entry(cells)))
    size = width(cells), 4 + 0.2 * -(-len(models) // columns)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    for number, own in enumerate(models.values()):
        places = [bins.index(cell.bin) for cell in own]
        rates = [cell.rate for cell in own]
        low, high = (
            np.array([np.nan if b is None else b for b in bounds])
            for bounds in zip(*((cell.low, cell.high) for cell in own), strict=True)
        )
        look = {"color": COLOURS[number % len(COLOURS)]}
        # no two models alike, also where colours begin again
        marker = MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]
        axes.plot(places, rates, marker=marker, **look)
        axes.fill_between(places, low, high, alpha=0.18, linewidth=0, **look)
        # a bin between two without an interval has nothing to shade
        axes.vlines(places, low, high, alpha=0.5, linewidth=1, **look)
    label_bins(axes, cells)
    style(axes)
    # with room for the marker and interval of the largest
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    axes.set_ylabel(NAMES[cells[0].unit])
    # above the lines, which may be anywhere; matplotlib by itself leaves out names that
    # begin with an underscore
    place = {"loc": "outside upper right", "ncols": columns, "frameon": False}
    figure.legend(axes.lines, [plain(model) for model in models], **place)
    return figure


def kinds_of_errors(cells: list[Cell]) -> Figure:
    """A panel for each model, one above the other, with a bar for each bin."""
    models, bins = by_model(cells), names_of_bins(cells)
    size = width(cells), 1.2 + 1.9 * len(models)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(models), sharex=True, sharey=True, squeeze=False)
    for axes, (model, own) in zip(panels[:, 0], models.items(), strict=True):
        places, bottom = [bins.index(cell.bin) for cell in own], np.zeros(len(own))
        for kind, colour in KINDS.items():
            share = [100 * getattr(cell, kind) / cell.tokens for cell in own]
            axes.bar(places, share, 0.6, bottom, label=kind, color=colour)
            bottom += share
        axes.set_title(plain(model), loc="left", fontsize=10)
        style(axes)
    label_bins(axes, cells)
    figure.supylabel(NAMES[cells[0].unit], fontsize="medium")
    # in the order of the stack, from its top
    handles, labels = axes.get_legend_handles_labels()
    place = {"loc": "outside upper right", "ncols": len(KINDS), "frameon": False}
    figure.legend(handles[::-1], labels[::-1], **place)
    return figure


def by_model(cells: list[Cell]) -> dict[str, list[Cell]]:
    models: dict[str, list[Cell]] = {}
    for cell in cells:
        models.setdefault(cell.model, []).append(cell)
    return models


def names_of_bins(cells: list[Cell]) -> list[str]:
    """All, as a model may lack some."""
    return list(dict.fromkeys(cell.bin for cell in cells))


def width(cells: list[Cell]) -> float:
    """Inches for the names of all bins side by side and of a model; any may be long."""
    bins = names_of_bins(cells)
    # of 8 points
    beside = 1 + len(bins) * (max(map(ems, bins)) + 1) * 8 / 72
    return max(7.0, beside, 1 + entry(cells))


def entry(cells: list[Cell]) -> float:
    """Inches of a legend's column for the names of models, of 10 points."""
    # with a line before and a gap after
    return (max(ems(cell.model) for cell in cells) + 5) * 10 / 72


def ems(name: str) -> float:
    """How wide a name is, in sizes of its font."""
    # capitals of Latin are about so wide, and letters of Chinese
    return sum(1.2 if east_asian_width(c) in "WF" else 0.65 for c in name)


def label_bins(axes: Axes, cells: list[Cell]) -> None:
    labels = []
    for cell in {cell.bin: cell for cell in cells}.values():
        mean = f"{cell.seconds:.{0 if cell.seconds >= 10 else 1}f} s"
        name = plain(RANGE.sub(r"\1–\2", cell.bin))
        labels.append(f"{name}\n{mean}\nn={cell.utterances}")
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    axes.set_xlabel("utterances: range of seconds or set, mean length, number")


def style(axes: Axes) -> None:
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, folder: Path, name: str) -> None:
    """Writes NAME.png and NAME.svg, the same bytes each time, and tells where."""
    for suffix, metadata in (("png", None), ("svg", {"Date": None})):
        path = folder / f"{name}.{suffix}"
        with (
            matplotlib.rc_context({"svg.hashsalt": "espnet_srupp"}),
            atomic_file(path, "wb") as file,
        ):
            figure.savefig(file, format=suffix, dpi=150, metadata=metadata)
        print(path)
