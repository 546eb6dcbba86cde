"""What the searches of `transcribe` can be told on the command line."""

import argparse
import math
from pathlib import Path

from espnet_srupp.recipe.download import checksum
from espnet_srupp.recipe.errors import RecipeError

# options that a search depends on
OPTIONS = {
    "greedy": (),
    "prefix": ("beam_size",),
    "joint": ("beam_size", "ctc_weight", "window", "overlap"),
}
LM_CHECKPOINT = "valid.loss.ave.pth"


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the options to a command line."""
    option = parser.add_argument
    option("--search", choices=OPTIONS, default="greedy", help="default: %(default)s")
    option(
        "--beam-size",
        metavar="N",
        type=int,
        default=10,
        help="for prefix and joint (default: %(default)s)",
    )
    option(
        "--ctc-weight",
        metavar="W",
        type=float,
        default=0.3,
        help="for joint: weight of CTC (default: %(default)s)",
    )
    option(
        "--lm",
        metavar="LM",
        type=Path,
        help="for prefix and joint: the experiment's folder of a language model, whose "
        f"{LM_CHECKPOINT} is used, or a checkpoint there (default: none)",
    )
    option(
        "--lm-weight",
        metavar="W",
        type=float,
        default=0.3,
        help="weight of --lm (default: %(default)s)",
    )
    option(
        "--window",
        metavar="SECONDS",
        type=float,
        default=20.0,
        help="for joint: how much is encoded and attended to at once "
        "(default: %(default)s)",
    )
    option(
        "--overlap",
        metavar="SECONDS",
        type=float,
        default=4.0,
        help="for joint: how far windows overlap (default: %(default)s)",
    )


def check(given: argparse.Namespace) -> None:
    """Raises RecipeError for a value out of its range, of no use, or not there."""
    if given.beam_size < 1:
        raise RecipeError(f"--beam-size {given.beam_size} is not 1 or more: correct it")
    if not 0 <= given.ctc_weight <= 1:
        raise RecipeError(
            f"--ctc-weight {given.ctc_weight} is not from 0 to 1: correct it"
        )
    if not 0 <= given.lm_weight < math.inf:
        raise RecipeError(f"--lm-weight {given.lm_weight} is not 0 or more: correct it")
    if given.lm and given.search == "greedy":
        raise RecipeError(
            f"--lm {given.lm} is of no use to --search greedy: give --search prefix or "
            "joint, or leave out --lm"
        )
    if given.lm:
        lm_files(given.lm)
    if not 1 <= given.window < math.inf:
        raise RecipeError(f"--window {given.window} is not 1 s or more: correct it")
    if given.search == "joint" and not 0 <= given.overlap <= given.window / 2:
        raise RecipeError(
            f"--overlap {given.overlap} is not from 0 s to half of --window "
            f"{given.window}: correct it"
        )


def lm_files(lm: Path) -> tuple[Path, Path]:
    """The configuration and the checkpoint of a language model, by what --lm says.

    Raises:
        RecipeError: one of them is missing.
    """
    checkpoint = lm / LM_CHECKPOINT if lm.is_dir() else lm
    config = checkpoint.with_name("config.yaml")
    for path in (checkpoint, config):
        if not path.is_file():
            raise RecipeError(
                f"{path} is missing: give the folder of a trained language model by "
                "--lm, or a checkpoint in it"
            )
    return config, checkpoint


def settings(given: argparse.Namespace) -> dict[str, object]:
    """What a result depends on."""
    names = ("search", *OPTIONS[given.search])
    kept = {name: getattr(given, name) for name in names}
    if given.lm:
        sums = map(checksum, lm_files(given.lm))
        kept |= dict(zip(("lm_config", "lm_checkpoint"), sums, strict=True))
        kept["lm_weight"] = given.lm_weight
    return kept
