"""Pictures of a training and of what the model attends to."""

import textwrap
from pathlib import Path
from unicodedata import east_asian_width

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from espnet_srupp.recipe import alphas, epochs, fonts, process
from espnet_srupp.recipe.epochs import Epoch
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.process import Job
from espnet_srupp.recipe.table import read_table

LINE = 50  # letters of a title's line, half as many where they are wide
# title, then legend, phase and ESPnet's name of each curve
BOTH = ("train", "valid")
PANELS = (
    ("loss", [(phase, phase, "loss") for phase in BOTH]),
    ("CTC loss", [(phase, phase, "loss_ctc") for phase in BOTH]),
    ("accuracy of the attention decoder", [(phase, phase, "acc") for phase in BOTH]),
    (
        "character error rate (valid)",
        # ESPnet gives the decoder the true tokens before each
        [
            ("CTC, greedy", "valid", "cer_ctc"),
            ("attention, after true tokens", "valid", "cer"),
        ],
    ),
)


def curves(exp: Path) -> None:
    """Draws all that there is by epoch."""
    training_curves(exp)
    alpha_curves(exp)


def training_curves(exp: Path) -> None:
    """Draws losses, accuracy and error rate by epoch from an experiment's logs.

    There is no picture where no epoch has a finite value.
    """
    trained = epochs.read(epochs.logs(exp))
    panels = [(title, there) for title, of in PANELS if (there := known(of, trained))]
    if not panels:
        return
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(10, 3.2 * rows), layout="constrained")
    for number, (title, curves) in enumerate(panels, 1):
        panel(figure.add_subplot(rows, 2, number), title, curves, trained)
    figure.suptitle(plain(exp.name))
    save(figure, exp / "images" / "training_curves.png")


def alpha_curves(exp: Path) -> None:
    """Draws the weight of each layer's attention by epoch, if SRU++ layers have it."""
    found = alphas.read(exp)
    if not found:
        return
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    layers = list(zip(*found.values(), strict=True))
    for number, values in enumerate(layers):
        # from the first layer, dark, to the last
        colour = colormaps["viridis"](number / max(len(layers), 2))
        axes.plot(list(found), values, color=colour, label=f"{number + 1}")
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_xlabel("epoch")
    axes.set_ylabel("alpha")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(title="attention", fontsize=8, ncols=2)
    figure.suptitle(f"{plain(exp.name)}: weight of the attention")
    save(figure, exp / "images" / "alpha.png")


def known(curves: list, trained: list[Epoch]) -> list:
    """Those of a panel that this training has; a language model has a loss alone."""
    return [
        (legend, phase, name)
        for legend, phase, name in curves
        if not np.isnan(series(trained, phase, name)).all()
    ]


def series(trained: list[Epoch], phase: str, name: str) -> list[float]:
    return [getattr(epoch, phase).get(name, np.nan) for epoch in trained]


def panel(axes: Axes, title: str, curves: list, trained: list[Epoch]) -> None:
    numbers = [epoch.number for epoch in trained]
    # one point alone would be invisible as a line
    marker = "o" if len(numbers) < 20 else ""
    for legend, phase, name in curves:
        values = series(trained, phase, name)
        axes.plot(numbers, values, label=legend, marker=marker, markersize=3)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)


def draw(options: Options, names: Layout, model: Path, source: Path) -> None:
    """Draws the curves, and the attention over the middle utterance of a set.

    Args:
        options, names: of the recipe.
        model: the checkpoint.
        source: the set.

    Raises:
        RecipeError: ESPnet cannot load the model.
    """
    curves(names.exp)
    samples = read_table(source / "utt2num_samples")
    utterance = middle({u: int(n) for u, n in samples.items()}, options.rate)
    transcript = read_table(source / "text")[utterance]
    directory = names.exp / "probe"
    words = [
        *("-m", "espnet_srupp.recipe.probe", "--output", str(directory)),
        *("--asr_train_config", str(names.exp / "config.yaml")),
        *("--asr_model_file", str(model)),
        f"--wav={read_table(source / 'wav.scp')[utterance]}",
        f"--text={transcript}",
    ]
    process.run([Job(words, directory / "probe.log")], options.python)
    target = names.exp / "images" / "attention.png"
    with fonts.having(f"{utterance}{transcript}"):
        attention(directory / "attention.npz", target, utterance, transcript)


def middle(lengths: dict[str, int], least: int) -> str:
    """The middle one by length of what has `least` samples, or else the longest.

    What is shorter shows little, or is too short for the encoder.
    """
    order = sorted(lengths, key=lengths.get)
    long = [utterance for utterance in order if lengths[utterance] >= least]
    return long[len(long) // 2] if long else order[-1]


def attention(probe: Path, target: Path, utterance: str, transcript: str) -> None:
    """Draws one utterance: features, the encoder's and the decoder's last attention.

    Args:
        probe: what `probe.py` wrote.
        target: the PNG file to make.
        utterance, transcript: for the title.
    """
    with np.load(probe) as data:
        features, tokens = data["features"], list(map(plain, data["tokens"]))
        seconds = float(data["seconds"])
        maps = [(name, data[name]) for name in ("encoder", "decoder") if name in data]
    heights = [1, *(2 if name == "encoder" else 1.3 for name, _ in maps)]
    figure = Figure(figsize=(8, 2 + 2.4 * sum(heights[1:])), layout="constrained")
    rows = np.atleast_1d(figure.subplots(len(heights), 1, height_ratios=heights))
    image(rows[0], features.T, seconds, "log-mel features", "mel band", "viridis")
    for axes, (name, weights) in zip(rows[1:], maps, strict=True):
        if name == "encoder":
            title, label = "encoder, last attention (dark: more)", "query (s)"
        else:
            title, label = "decoder, last source attention (dark: more)", "token"
        image(axes, weights, seconds, title, label, "magma_r")
        if name == "encoder":
            axes.set_yticks(*frames(seconds, len(weights)))
        else:
            axes.set_yticks(range(len(tokens)), tokens, fontsize=7)
            axes.invert_yaxis()
    rows[-1].set_xlabel("time (s)")
    figure.suptitle(heading(f"{utterance}: {transcript}"), wrap=True)
    save(figure, target)


def image(
    axes: Axes, values: np.ndarray, seconds: float, title: str, label: str, colours: str
) -> None:
    """Shows (rows, frames) over the seconds of the utterance."""
    rows = len(values)
    # a few large weights would leave all others dark
    top = np.quantile(values, 0.995)
    bottom = None if values.min() < 0 else 0
    extent = (0, seconds, -0.5, rows - 0.5)
    shown = {"aspect": "auto", "origin": "lower", "interpolation": "nearest"}
    axes.imshow(values, extent=extent, cmap=colours, vmin=bottom, vmax=top, **shown)
    axes.set_title(title, fontsize=10)
    axes.set_ylabel(label)


def frames(seconds: float, count: int) -> tuple[list[float], list[str]]:
    """Ticks on an axis of `count` frames, labelled in seconds."""
    marks = MaxNLocator(5).tick_values(0, seconds)
    marks = [mark for mark in marks if 0 <= mark <= seconds]
    return [m / seconds * count - 0.5 for m in marks], [f"{m:g}" for m in marks]


def heading(text: str) -> str:
    """Two lines of a text: the picture would become small beside a long one."""
    # matplotlib wraps at blanks, which Chinese has not
    wide = any(east_asian_width(letter) in "WF" for letter in text)
    width = LINE // 2 if wide else LINE
    lines = textwrap.wrap(text, width)
    if len(lines) > 2:
        lines = [lines[0], f"{lines[1][: width - 1]}…"]
    return plain("\n".join(lines))


def plain(text: str) -> str:
    """Keeps matplotlib from reading what is between dollars as a formula."""
    return text.replace("$", r"\$")


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
