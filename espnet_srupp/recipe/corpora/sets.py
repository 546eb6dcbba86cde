"""The data directories that stage 1 makes, told apart from those of the user."""

from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir

# lies in each of ours, from the moment that it is there
STAMP = ".corpus"


def write(made: Mapping[str, DataDir | None], data: Path) -> None:
    """Writes a corpus's sets; those of an earlier stage 1 are replaced.

    Args:
        made: the sets by name, None for one that could not be made, which does not
            stay from before.
        data: the folder that they go to.

    Raises:
        RecipeError: one of them is there and is the user's; as for `datadir.write`.
    """
    for name, contents in made.items():
        path = data / name
        if contents is not None:
            check_ours(path)
            with atomic_dir(path) as directory:
                datadir.write_files(contents, directory, path)
                (directory / STAMP).touch()
        elif (path / STAMP).exists():
            rmtree(path)


def check_ours(path: Path) -> None:
    """Sees that stage 1 can make a set without harm to what is there.

    Raises:
        RecipeError: stage 1 has not made it.
    """
    if path.exists() and not (path / STAMP).exists():
        raise RecipeError(
            f"{path} is there and is not of stage 1: begin with --stage 2 if it is "
            "your own, else remove it"
        )
