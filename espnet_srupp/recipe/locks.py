"""What one run.sh makes or reads, no other one changes meanwhile.

A lock goes with the process that holds it, however that ends.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from espnet_srupp.recipe.errors import RecipeError

# what a file system says that has no locks, such as some for clusters
LOCKLESS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
# and what it says where one may only read
READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def held(
    made: Path,
    read: Sequence[Path],
    roots: Sequence[Path],
    tell: Callable[[str], None],
    alone: bool,
) -> Iterator[None]:
    """Holds what a step makes and what it reads, so that no other run.sh changes it.

    Args:
        made, read: the markers, see `stage.marker`.
        roots: folders that several recipes may share, see `lock_file`.
        tell: takes the reason why the user has to wait.
        alone: no other one reads meanwhile what the step makes.
    """
    with ExitStack() as stack:
        for path in dict.fromkeys([made, *read]):
            try:
                file = stack.enter_context(opened(lock_file(path, roots)))
            except OSError as error:
                if (alone and path == made) or error.errno not in READ_ONLY:
                    raise
                continue
            if path == made:
                acquire(file, alone, "doing this", tell)
            else:
                acquire(file, False, "making what this reads", tell)
        yield


def opened(lock: Path) -> IO:
    lock.parent.mkdir(parents=True, exist_ok=True)
    return open(lock, "a+")


def lock_file(marker: Path, roots: Sequence[Path]) -> Path:
    """The file that is locked for the step with that marker.

    It is in the innermost of `roots` that the outputs lie in, else in the current
    folder: not beside the outputs, whose folder may be replaced as a whole.
    """
    try:
        path = marker.resolve()
    except RuntimeError as error:  # up to Python 3.12
        raise RecipeError(f"{marker} is behind a link to itself: remove it") from error
    above = [root.resolve() for root in roots if root.resolve() in path.parents]
    root = max(above, key=lambda root: len(root.parts), default=Path.cwd())
    name = os.fsencode(os.path.relpath(path, root))
    return root / ".locks" / hashlib.blake2b(name, digest_size=16).hexdigest()


def acquire(file: IO, alone: bool, other: str, tell: Callable[[str], None]) -> None:
    """Locks a file, alone or together with others, once that is possible.

    Args:
        file: what is locked.
        alone: whether nobody else may hold it.
        other: what one does who holds it alone, for `tell`.
        tell: takes the reason why the user has to wait.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        # not flock, which would live on in the processes forked from this one
        if not free(file, kind):
            if alone and free(file, fcntl.LOCK_SH):
                fcntl.lockf(file, fcntl.LOCK_UN)
                other = (
                    "reading what this replaces (another --dumpdir or --asr_tag need "
                    "not wait)"
                )
            tell(f"another run.sh is {other}, waiting for it")
            fcntl.lockf(file, kind)
    except OSError as error:
        if error.errno not in LOCKLESS:
            raise


def free(file: IO, kind: int) -> bool:
    """Locks a file if that is possible at once."""
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
