"""Files and directories that are there whole or not at all."""

import errno
import functools
import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from espnet_srupp.recipe.errors import RecipeError

FULL = {errno.ENOSPC, errno.EDQUOT}


def local_name(path: str | Path) -> str:
    """A path from here, or the name alone of one elsewhere: for what is handed on."""
    path = Path(path)
    if not path.is_absolute():
        return str(path)
    here = Path.cwd()
    return str(path.relative_to(here)) if here in path.parents else path.name


def claim(directory: Path, option: str = "--out") -> None:
    """Makes a folder for results, before the work whose results they are.

    Raises:
        RecipeError: it cannot be written to; names the option.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise RecipeError(
            f"{option} {directory} cannot be written to ({error.strerror}): give "
            "another"
        ) from error


@contextmanager
def atomic_file(path: Path, mode: str = "w") -> Iterator[IO]:
    """Opens a file that appears at `path` only once it is complete and on disk.

    Args:
        path: where the file will be; its folder is made, an old file is replaced.
        mode: "w" for UTF-8 text, "wb" for bytes.

    Yields:
        The open file, which lies beside `path` until the block ends; if the block
        raises, `path` is as it was before.

    Raises:
        RecipeError: the disk is full.
    """
    partial = partial_name(path)
    with full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(partial, mode, encoding=None if "b" in mode else "utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def atomic_dir(target: Path) -> Iterator[Path]:
    """Makes a directory that appears at `target` only once it is complete and on disk.

    Args:
        target: where the directory will be; an old one there is replaced as a whole,
            and a link to one stays.

    Yields:
        The directory to fill, which lies beside `target` until the block ends; if the
        block raises, it is removed and `target` is as it was before.

    Raises:
        RecipeError: the disk is full.
    """
    if target.is_symlink() or not target.name:
        target = target.resolve()
    partial, old = partial_name(target), partial_name(target, "old")
    with full_disk_named(target):
        # left by a run that was killed
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield partial
            # one call for all files: a corpus has hundreds of thousands of them
            os.sync()
            if target.exists():
                os.replace(target, old)
            os.replace(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if old.exists() and not target.exists():
                os.replace(old, target)
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Opens UTF-8 text for reading, also in a .gz file.

    Raises:
        RecipeError: what is read is damaged or not UTF-8.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise RecipeError(
            f"{path} is damaged or not UTF-8 ({error}): fetch or convert it again"
        ) from error


def once(look: Callable) -> Callable:
    """Has a function of a path look at each file once, until that changes."""
    known = functools.cache(lambda path, *state: look(path))

    @functools.wraps(look)
    def looked(path: str | Path) -> object:
        found = os.stat(path)
        return known(path, found.st_size, found.st_mtime_ns)

    looked.cache_clear = known.cache_clear
    return looked


def partial_name(path: Path, suffix: str = "partial") -> Path:
    return path.with_name(f".{path.name}.{suffix}")


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turns "no space left" into a sentence that names the file system."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        mount = path.resolve()
        while not mount.is_mount():
            mount = mount.parent
        raise RecipeError(
            f"no space left on the file system {mount} while writing {path}: "
            "free some space there and run the same command again"
        ) from error
