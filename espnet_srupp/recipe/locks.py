"""What one run.sh makes or reads, no other one changes meanwhile.

A lock goes with the process that holds it, however that ends.
"""

import errno
import fcntl
import hashlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.progress import say

# what a file system says that has no locks, such as some for clusters
LOCKLESS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
# and what it says where one may only read
READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}


class Done(Exception):
    """What was waited for needs no lock any more."""


class Woken(Exception):
    """A second has passed."""


class Locks:
    """What one run.sh holds, until it is closed.

    Args:
        roots: folders that several recipes may share, see `lock_file`.
    """

    def __init__(self, roots: Sequence[Path] = ()):
        self.roots = roots
        # a file each: to close a second one of a lock would drop the lock
        self.kept: dict[Path, IO] = {}

    def __enter__(self) -> "Locks":
        return self

    def __exit__(self, *_: object) -> None:
        while self.kept:
            _, file = self.kept.popitem()
            file.close()

    @contextmanager
    def held(
        self,
        made: Path,
        read: Sequence[Path],
        tell: Callable[[str], None],
        alone: bool,
        keep: bool = False,
        done: Callable[[], bool] = lambda: False,
    ) -> Iterator[None]:
        """Holds what a step makes and reads, so that no other run.sh changes it.

        Args:
            made, read: the markers, see `stage.marker`.
            tell: takes the reason why the user has to wait.
            alone: no other one reads meanwhile what the step makes.
            keep: go on holding all of it once the step is done, beside other readers.
            done: whether to wait no longer, as another one has made it.

        Raises:
            Done: another one has.
            RecipeError: another one waits for what this one holds, and holds what this
                one waits for.
        """
        taken: dict[Path, IO] = {}
        with ExitStack() as stack:
            for path in dict.fromkeys([made, *read]):
                lock = lock_file(path, self.roots)
                try:
                    file = self.kept.get(lock) or stack.enter_context(opened(lock))
                except OSError as error:
                    if (alone and path == made) or error.errno not in READ_ONLY:
                        raise
                    continue
                taken[lock] = file
                if path == made:
                    acquire(file, alone, "doing this", tell, done)
                else:
                    acquire(file, False, "making what this reads", tell)
            try:
                yield
                if keep:
                    self.kept |= taken
                    stack.pop_all()
            finally:
                for lock in taken.keys() & self.kept.keys():
                    free(taken[lock], fcntl.LOCK_SH)


@contextmanager
def alone(path: Path, doing: str) -> Iterator[None]:
    """Has one run.sh at a time do something with a file.

    Args:
        path: the file; the lock is in the folder `.locks` beside it.
        doing: what is done, such as "downloading", by which one thing is told from
            another.
    """
    with opened(path.parent / ".locks" / f"{path.name}.{doing}") as file:
        acquire(file, True, f"{doing} {path.name}", say)
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


def acquire(
    file: IO,
    alone: bool,
    other: str,
    tell: Callable[[str], None],
    done: Callable[[], bool] = lambda: False,
) -> None:
    """Locks a file, alone or together with others, once that is possible.

    Args:
        file: what is locked.
        alone: whether nobody else may hold it.
        other: what one does who holds it alone, for `tell`.
        tell: takes the reason why the user has to wait.
        done: whether to wait no longer, asked every second.

    Raises:
        Done: that was so.
        RecipeError: two wait for each other.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    # not flock, which would live on in the processes forked from this one
    if free(file, kind):
        return
    if alone and free(file, fcntl.LOCK_SH):
        fcntl.lockf(file, fcntl.LOCK_UN)
        other = (
            "reading what this replaces (it need not wait under another name, which "
            "--train_set, --dumpdir or --asr_tag give)"
        )
    tell(f"another run.sh is {other}, waiting for it")
    try:
        while not wait(file, kind):
            if done():
                raise Done
    except OSError as error:
        if error.errno != errno.EDEADLK:
            raise
        raise RecipeError(
            "another run.sh waits for what this one has read, and this one for the "
            "other: give this command again once the other one is done"
        ) from error


def wait(file: IO, kind: int) -> bool:
    """Locks a file if that is possible within a second.

    It does not ask again and again, as the system sees of who is blocked alone that two
    wait for each other.
    """

    def wake(*_: object) -> None:
        raise Woken

    before = signal.signal(signal.SIGALRM, wake)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 1)
            fcntl.lockf(file, kind)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Woken:
        return False
    finally:
        signal.signal(signal.SIGALRM, before)
    return True


def free(file: IO, kind: int) -> bool:
    """Locks a file if that is possible at once."""
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in LOCKLESS:
            raise
    return True
