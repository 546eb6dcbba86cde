"""The parameters that a training begins with, each FILE:FROM:TO:EXCEPT."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch

from espnet_srupp.recipe import config
from espnet_srupp.recipe.errors import RecipeError

SHOWN = 5  # names of parameters that are told


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
        found = names(Path(path))
        if found and not chosen(found, keys):
            tops = sorted({name.partition(".")[0] for name in found})
            raise RecipeError(
                f"{word} takes no parameters, and the training would begin from "
                f"scratch: in {path} their names begin with {', '.join(tops)}, and "
                "a third colon with nothing after it leaves out all of them"
            )


def misfits(words: Sequence[str], unfit: Collection[str]) -> str:
    """Tells how many ESPnet has left as they were drawn.

    Args:
        words: FILE:FROM:TO:EXCEPT each.
        unfit: parameters that the model has not, or not of that shape.

    Raises:
        RecipeError: all of them, so that the training would begin from scratch.
    """
    taken = set()
    for path, *keys in (word.split(":") for word in words):
        taken.update(chosen(names(Path(path)), keys))
    given, some = " ".join(words), ", ".join(list(unfit)[:SHOWN])
    if taken and taken <= set(unfit):
        raise RecipeError(
            f"no parameter of {given} fits the model ({some}), and the training would "
            "begin from scratch: take a model of these sizes and names"
        )
    # of a file that only ESPnet can read it is not known how many there are
    share = f"{len(unfit)} of {len(taken)}" if taken else f"{len(unfit)}"
    more = ", ..." if len(unfit) > SHOWN else ""
    return f"{share} parameters of {given} do not fit, and are drawn: {some}{more}"


def chosen(found: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Which of these names FROM:TO:EXCEPT take, without FROM, as ESPnet has them."""
    source = keys[0] if keys else ""
    excluded = tuple(keys[2].split(",")) if len(keys) == 3 else ()
    taken = [n for n in found if n.startswith(source) and not n.startswith(excluded)]
    return [name[len(source) + 1 :] for name in taken] if source else taken


def names(path: Path) -> list[str]:
    """Names of a file's parameters; none of a file that cannot be read so."""
    try:
        state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception:  # ESPnet reads it in another way, or says what is wrong with it
        return []
    state = state.get("module", state) if isinstance(state, dict) else {}
    return list(map(str, state))
