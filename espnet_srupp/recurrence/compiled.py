"""numba's compiler, with a cache on disk that may be full or out of reach."""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from numba import njit
from numba.core.caching import FunctionCache

# fusing a multiply with an add is allowed, changing the order of additions is not
FLAGS = {"contract", "nsz"}


class Cache(FunctionCache):
    """numba's own, but what cannot be kept is compiled again instead of an error.

    What is kept lasts until a file beside the function's changes; numba's own looks at
    the function's alone, not at those of the functions that it calls.
    """

    def __init__(self, function: Callable):
        super().__init__(function)
        folder = Path(function.__code__.co_filename).parent
        stats = {path.name: path.stat() for path in folder.glob("*.py")}
        stamp = [(name, s.st_mtime_ns, s.st_size) for name, s in sorted(stats.items())]
        self._cache_file._source_stamp = stamp

    # numba's place for errors that are not to stop the program; on Windows it has one
    @contextlib.contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            warn(str(error))


def jit(function: Callable) -> Callable:
    """Compiles at the first call of each type, without Python's lock in the loops."""
    dispatcher = njit(nogil=True, error_model="numpy", fastmath=FLAGS)(function)
    try:
        # as cache=True does it
        dispatcher._cache = Cache(function)
    except RuntimeError:
        warn("neither the package's folder nor the home can be written")
    return dispatcher


@functools.cache
def warn(why: str) -> None:
    warnings.warn(
        f"the recurrence is compiled again in each process ({why}): "
        "let NUMBA_CACHE_DIR name a folder that can be written",
        RuntimeWarning,
        stacklevel=2,
    )
