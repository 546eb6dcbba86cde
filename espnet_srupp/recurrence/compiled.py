"""numba's compiler, with a cache on disk that may be full or out of reach."""

import contextlib
import functools
import hashlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

# fusing a multiply with an add is allowed, changing the order of additions is not
FLAGS = {"contract", "nsz"}


class File(IndexDataCacheFile):
    """Names what is kept by all that it depends on, and keeps it before it lists it.

    numba's own lists a numbered file first: where that cannot be written then, the list
    names what an older source, other types or another CPU have left there.
    """

    def save(self, key: object, data: object) -> None:
        depends = repr((self._version, self._source_stamp, key)).encode()
        name = self._data_name(int(hashlib.sha256(depends).hexdigest()[:16], 16))
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})


class Cache(FunctionCache):
    """numba's own, but what cannot be kept is compiled again instead of an error.

    What is kept lasts until a file beside the function's changes; numba's own looks at
    the function's alone, not at those of the functions that it calls.
    """

    def __init__(self, function: Callable):
        super().__init__(function)
        folder = Path(function.__code__.co_filename).parent
        # an editor's lock is a link to nothing
        files = sorted(path for path in folder.glob("*.py") if path.is_file())
        stats = [(path.name, path.stat()) for path in files]
        stamp = [(name, s.st_mtime_ns, s.st_size) for name, s in stats]
        self._cache_file._source_stamp = stamp
        self._cache_file.__class__ = File

    # numba's place for errors that are not to stop the program; on Windows it has one
    @contextlib.contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            warn(str(error))
        except (EOFError, UnpicklingError):
            # damaged, as when power is lost: the next that is compiled is kept again
            with contextlib.suppress(OSError):
                Path(self._cache_file._index_path).unlink(missing_ok=True)


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
