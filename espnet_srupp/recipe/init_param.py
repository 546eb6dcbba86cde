"""The parameters that a training begins with, each FILE:FROM:TO:EXCEPT."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from espnet_srupp.recipe import config
from espnet_srupp.recipe.errors import RecipeError


def words(given: str, settings: Mapping, overrides: str) -> list[str]:
    """All that a training is told of them.

    Args:
        given: --pretrained_model; which parameters to take may follow a file's name.
        settings: flat; ESPnet's own option for such files is among them, which may
            name several.
        overrides: what of the settings the command line gave, as in --asr_args.

    Raises:
        RecipeError: that option names none.
    """
    named = dict(config.options(overrides))
    found = named.get("init_param", settings.get("init_param") or [])
    found = found.split() if isinstance(found, str) else found
    if not isinstance(found, list):
        raise RecipeError(f"init_param is {found}: give files of parameters, or none")
    return [word for word in (given, *map(str, found)) if word.partition(":")[0]]


def files(words: Sequence[str]) -> list[Path]:
    return [Path(word.partition(":")[0]) for word in words]


def check(words: Sequence[str]) -> None:
    """Sees that each finds parameters in its file, where ESPnet says nothing.

    Raises:
        RecipeError: one finds none, so that the training would begin from scratch.
    """
    for word in words:
        path, *keys = word.split(":")
        if len(keys) > 3:
            raise RecipeError(f"{word} has more than FILE:FROM:TO:EXCEPT: correct it")
        source = keys[0] if keys else ""
        excluded = tuple(keys[2].split(",")) if len(keys) == 3 else ()
        found = names(Path(path))
        left = [name for name in found if not name.startswith(excluded)]
        if found and not any(name.startswith(source) for name in left):
            tops = sorted({name.partition(".")[0] for name in found})
            raise RecipeError(
                f"{word} takes no parameters, and the training would begin from "
                f"scratch: in {path} their names begin with {', '.join(tops)}, and "
                "a third colon with nothing after it leaves out all of them"
            )


def names(path: Path) -> list[str]:
    """Names of a file's parameters; none of a file that cannot be read so."""
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception:  # ESPnet reads it in another way, or says what is wrong with it
        return []
    state = state.get("module", state) if isinstance(state, dict) else {}
    return list(map(str, state))
