"""A trained language model of ESPnet, which has a say in a search by windows."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from espnet2.tasks.lm import LMTask
from torch import nn

from espnet_srupp.longform.loading import Files, constructing, fill, located
from espnet_srupp.longform.search_options import lm_files
from espnet_srupp.recipe import config as yaml_file
from espnet_srupp.recipe.errors import RecipeError


def load(lm: Path, tokens: Sequence[str]) -> nn.Module:
    """What ESPnet's search calls a scorer.

    Args:
        lm: the folder of its experiment, or a checkpoint in it.
        tokens: those of the model that it goes with.

    Raises:
        RecipeError: files are missing or do not fit each other, or it has other tokens.
    """
    found = Files(*lm_files(lm), archived=False)
    given: dict[str, Any] = yaml_file.load(found.config) | {"init": None}
    if "lm" not in given:
        raise RecipeError(
            f"{found.config} is not of a language model: give another one by --lm"
        )
    if isinstance(given.get("token_list"), str):
        given["token_list"] = located(given["token_list"], found)
    options = argparse.Namespace(**given)
    with constructing(found):
        # which puts a list in the place of a file's name
        model = LMTask.build_model(options)
    if list(options.token_list) != list(tokens):
        raise RecipeError(
            f"{found.config} has other tokens than the model that transcribes: give "
            "a language model of its tokens by --lm"
        )
    fill(model, found, "--lm")
    return model.lm
