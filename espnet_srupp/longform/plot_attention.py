"""Draws what models attend to in one utterance, side by side.

Each MODEL is the folder of an ESPnet experiment, or a packed zip, with SRU++ or any
encoder of ESPnet that has self-attention; NAME=MODEL gives it another title than its
encoder's. Shown is the last layer's attention, averaged over heads (as Fig. 4 of Pan et
al., arXiv 2110.05571): a row for each frame of the encoder, over the frames that it
attends to; each row adds up to 1. Makes FILE.png and FILE.svg.
"""

import argparse
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from espnet_srupp.longform import sources, waveform
from espnet_srupp.longform.lengths import limited
from espnet_srupp.longform.plot import save
from espnet_srupp.longform.sources import Source
from espnet_srupp.recipe import files, fonts
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.pictures import heading, plain
from espnet_srupp.recipe.table import read_table

# the weights of all pairs of frames are a matter of short audio
LONGEST = 120.0


@dataclass(frozen=True)
class Map:
    """The attention of one model.

    Attributes:
        title: of the model.
        layer: which one, from 1.
        heads: how many `weights` is the mean of.
        alpha: what SRU++ multiplies its attention by; None for another encoder.
        weights: (T', T'), queries by keys.
        begin, end: of the frames, in seconds.
    """

    title: str
    layer: int
    heads: int
    alpha: float | None
    weights: np.ndarray
    begin: float
    end: float


def options(parser: argparse.ArgumentParser) -> None:
    """The command line of `plot-attention`."""
    add = parser.add_argument
    add("models", metavar="[NAME=]MODEL", nargs="+", help="models to draw")
    audio = parser.add_mutually_exclusive_group(required=True)
    audio.add_argument("--wav", metavar="FILE", help="sound file")
    audio.add_argument("--data", metavar="DIR", type=Path, help="data directory")
    add(
        "--utt", metavar="ID", help="utterance of --data; default: one of median length"
    )
    add("--out", metavar="FILE", type=Path, required=True, help="without a suffix")
    add(
        "--checkpoint",
        metavar="FILE",
        help="in each folder (default: valid.acc.ave.pth, or the one packed)",
    )


def run(given: argparse.Namespace) -> None:
    """Draws as the command line says.

    Raises:
        RecipeError: there is no such audio, it is too long, or a model has no
            attention.
    """
    if not given.out.name:
        raise RecipeError(f"--out {given.out} is a folder: give a file without suffix")
    files.claim(given.out.parent, "the folder of --out,")
    source = chosen(given)
    seconds = waveform.seconds(source)
    if seconds > LONGEST:
        raise RecipeError(
            f"{source} is {seconds:.0f} s long, more than the {LONGEST:.0f} s that "
            "can be shown: give a shorter utterance"
        )
    title = caption(given, source)
    # ESPnet prints at import
    with redirect_stdout(sys.stderr):
        maps = [look(word, source, given.checkpoint) for word in given.models]
    with fonts.having(title + "".join(each.title for each in maps)):
        name = given.out.name.removesuffix(".png").removesuffix(".svg")
        save(draw(maps, seconds, title), given.out.parent, name)


def chosen(given: argparse.Namespace) -> Source:
    """The utterance to show."""
    if given.data is None:
        if given.utt is not None:
            raise RecipeError("--utt names an utterance of --data: leave it out")
        return sources.single(given.wav)
    problems: list[str] = []
    found = {source.name: source for source in sources.listed(given.data, problems)}
    if given.utt is None:
        seconds = waveform.measured(found.values(), problems)
        if not seconds:
            raise RecipeError(*limited(problems))
        return sorted(seconds, key=seconds.get)[len(seconds) // 2]
    if given.utt not in found:
        raise RecipeError(
            f"{given.data} has no utterance {given.utt}: give one of its wav.scp, or "
            "of its segments if it has some"
        )
    return found[given.utt]


def caption(given: argparse.Namespace, source: Source) -> str:
    """The utterance, with its transcript where that is known."""
    path = given.data / "text" if given.data else None
    text = read_table(path).get(source.name) if path and path.exists() else None
    return f"{source.name}: {text}" if text else source.name


def look(word: str, source: Source, checkpoint: str | None) -> Map:
    """Lets a model encode an utterance and keeps what its last layer attends to."""
    # seconds to import: after whatever can be told without it
    import torch

    from espnet_srupp.longform import loading
    from espnet_srupp.recipe import config, probe

    name, _, path = word.partition("=")
    if Path(word).exists() or not (name and path):
        name, path = "", word
    with loading.files(Path(path), checkpoint) as paths:
        recogniser = loading.load(paths, "cpu")
        title = name or config.load(paths.config).get("encoder", "rnn")
    encoder = recogniser.espnet.encoder
    found = probe.watch(encoder)
    with torch.inference_mode():
        samples = waveform.blocks(source, recogniser.rate)
        frames, clock = recogniser.encode(recogniser.features(samples))
    if not len(frames):
        raise RecipeError(f"{source} is too short for {path}: give a longer utterance")
    if not found:
        raise RecipeError(f"{path}: its encoder {title} has no attention: leave it out")
    last = probe.last(found)
    alpha = getattr(encoder.get_submodule(last), "alpha", None)
    return Map(
        title,
        probe.order(last)[0] + 1,
        len(found[last]),
        None if alpha is None else alpha.item(),
        probe.mean_of_heads(found[last]),
        clock.seconds(0),
        clock.seconds(len(frames)),
    )


def draw(maps: list[Map], seconds: float, caption: str) -> Figure:
    """A panel for each model, with the same axes and the same colours."""
    figure = Figure(figsize=(1.4 + 3.6 * len(maps), 4.6), layout="constrained")
    panels = figure.subplots(1, len(maps), sharex=True, sharey=True, squeeze=False)[0]
    # the square root shows broad attention beside weights that are nearly one
    norm = PowerNorm(0.5, 0, max(each.weights.max() for each in maps))
    for axes, each in zip(panels, maps, strict=True):
        image = axes.imshow(
            each.weights,
            extent=(each.begin, each.end) * 2,
            cmap="magma_r",
            norm=norm,
            origin="lower",
            interpolation="nearest",
        )
        axes.set_title(f"{plain(each.title)}\n{described(each)}", fontsize=10)
        axes.set_xlabel("attended to (s)")
    # frames are of some width, so they do not end with the audio
    panels[0].set(xlim=(0, seconds), ylim=(0, seconds), ylabel="attending (s)")
    figure.colorbar(image, ax=panels, label="attention weight", shrink=0.9)
    figure.suptitle(heading(caption), fontsize=11, wrap=True)
    return figure


def described(each: Map) -> str:
    """ "layer 4, mean of 4 heads" """
    heads = f"mean of {each.heads} heads" if each.heads > 1 else "one head"
    alpha = "" if each.alpha is None else f", alpha {each.alpha:.2g}"
    return f"layer {each.layer}, {heads}{alpha}"
