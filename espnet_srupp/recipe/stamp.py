"""What stages 1 and 2 make in data/ is told apart from the user's own."""

from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError

# lies in each of ours, from the moment that it is there
STAMP = ".corpus"


def stamp(directory: Path) -> None:
    """Marks a folder, while it is made, as one that may be replaced."""
    (directory / STAMP).touch()


def stamped(path: Path) -> bool:
    return (path / STAMP).exists()


def check_ours(path: Path, number: int) -> None:
    """Sees that a stage can make a set without harm to what is there.

    Args:
        path: the set.
        number: of the stage.

    Raises:
        RecipeError: neither stage has made it.
    """
    if path.exists() and not stamped(path):
        remedy = {
            1: "begin with --stage 2 if it is your own, else remove it",
            2: "rename it, or train on it by --train_set and --speed_perturb_factors ''"
            " if it is your own, else remove it",
        }
        raise RecipeError(
            f"{path} is there and is not of stage {number}: {remedy[number]}"
        )
