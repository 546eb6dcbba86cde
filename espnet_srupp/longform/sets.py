"""Decoded sets: a reference, and what each model made of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from espnet_srupp.longform.groups import shortened
from espnet_srupp.longform.table import ALL
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.letters import check_utf8


@dataclass(frozen=True)
class Set:
    """A data directory, and the `text` that each model made of it, by its name."""

    reference: Path
    models: dict[str, Path]


def read(words: list[str]) -> list[Set]:
    """Reads REFERENCE MODEL=RESULTS ..., once or several times.

    Raises:
        RecipeError: results are missing, a name is not UTF-8, or references do not go
            together (`check`).
    """
    split: list[list[str]] = []
    for word in words:
        if not split or "=" not in word or (Path(word) / "text").is_file():
            split.append([])
        split[-1].append(word)
    for reference, *models in split:
        if not models:
            raise RecipeError(
                f"no MODEL=RESULTS follows {reference}: give for example srupp=DIR"
            )
    sets = [Set(named(first), read_models(models)) for first, *models in split]
    for each in sets:
        # as scores.json tells them
        check_utf8(map(str, (each.reference, *each.models, *each.models.values())))
    if len(sets) > 1:
        check(sets)
    return sets


def named(word: str) -> Path:
    """A path whose last part is the folder's name, as it is not of `.` and `..`."""
    path = Path(word)
    return path.resolve() if path.name in ("", "..") else path


def check(sets: list[Set]) -> None:
    """Sees that references can be bins beside each other.

    Raises:
        RecipeError: they share the name of their folder, one has a | or that of the bin
            of all, or results are not of the same models.
    """
    first = sets[0]
    for number, each in enumerate(sets):
        if each.reference.name in (other.reference.name for other in sets[:number]):
            raise RecipeError(
                f"two references are called {each.reference.name}, which names the "
                "bin: rename a folder"
            )
        if "|" in each.reference.name:
            raise RecipeError(
                f"{each.reference} has a |, which tables do not show: rename the folder"
            )
        if each.reference.name == ALL:
            raise RecipeError(
                f"{each.reference} has the name of the bin of all utterances: rename "
                "the folder"
            )
        if each.models.keys() != first.models.keys():
            raise RecipeError(
                f"{each.reference} has results of {', '.join(each.models)}, and "
                f"{first.reference} of {', '.join(first.models)}: give those of the "
                "same models"
            )


def read_models(words: list[str]) -> dict[str, Path]:
    """Reads MODEL=RESULTS; of a folder the file `text` inside."""
    models: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise RecipeError(
                f"'{word}' is not MODEL=RESULTS: give for example srupp=DIR"
            )
        if "|" in name or name.startswith("_"):
            raise RecipeError(
                f"the model {name} begins with _ or has a |, which pictures and tables "
                "do not show: name it differently"
            )
        if name in models:
            raise RecipeError(f"the model {name} is there twice: name one differently")
        models[name] = Path(path) / "text" if Path(path).is_dir() else Path(path)
        if not models[name].is_file():
            raise RecipeError(
                f"{models[name]} is missing: give a file of results for {name}, or the "
                "folder that holds its text"
            )
    return models


def left_out(
    data: DataDir, given: Set, texts: dict[str, dict[str, str]]
) -> Iterator[str]:
    """A sentence on what each model lacks and has too much."""
    own = given.reference / "text"
    for model, found in texts.items():
        path = given.models[model]
        if missing := sorted(data.text.keys() - found.keys()):
            yield (
                f"{shortened(missing)} not in {path}: decode again to score them; "
                f"where {model} has others of the bin, no model is scored on them"
            )
        if unknown := sorted(found.keys() - data.text.keys()):
            yield (
                f"{shortened(unknown)} in {path} and not in {own}: left out, check "
                "that both are the same set"
            )
