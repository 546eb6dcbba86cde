"""How a program of the command line ends: exit codes, errors in one sentence."""

import sys
from collections.abc import Callable

from espnet_srupp.recipe.errors import RecipeError

INTERRUPTED = 130


def exit_code(work: Callable[[], None], interrupted: str) -> int:
    """Does the work and tells in a sentence or several why it could not be done.

    Args:
        work: what the program does. If it did only a part, it raises a RecipeError at
            its end.
        interrupted: what to say after Ctrl-C.

    Returns:
        0, 1 after an error, 130 after an interrupt.
    """
    try:
        work()
    except RecipeError as error:
        return told(*error.args)
    except ModuleNotFoundError as error:
        return told(
            f"{sys.executable} has no module {error.name}: run "
            "pip install '.[recipes]' in the checkout of espnet_srupp"
        )
    except BrokenPipeError:
        # as behind `| head`
        return told("nobody reads the output any more")
    except (OSError, ImportError) as error:
        # of files that may not be read or written, or as by a GPU's kernel without CuPy
        return told(error)
    except KeyboardInterrupt:
        print(f"interrupted: {interrupted}", file=sys.stderr)
        return INTERRUPTED
    return 0


def told(*sentences: object) -> int:
    for sentence in sentences:
        print(f"error: {sentence}", file=sys.stderr)
    return 1
