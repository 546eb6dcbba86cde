"""The data directories that stage 1 makes."""

from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.stamp import check_ours, stamped


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
            check_ours(path, 1)
            datadir.write(contents, path)
        elif stamped(path):
            rmtree(path)
