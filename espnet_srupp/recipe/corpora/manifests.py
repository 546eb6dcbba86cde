"""What the corpora share that lhotse prepares: where they lie, if they are whole."""

import hashlib
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path

from soundfile import LibsndfileError

from espnet_srupp.recipe.archive import unpack
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.download import download
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir
from espnet_srupp.recipe.locks import alone
from espnet_srupp.recipe.progress import say

OPENSLR = "https://www.openslr.org/resources"
AUDIO = (".flac", ".wav")
# what lhotse raises at a file that is missing, or a line of a transcript that is none
UNREADABLE = (AssertionError, FileNotFoundError, LibsndfileError)
UNREADABLE += (ValueError, LookupError, TypeError)
TAKE = "or take what is there with --partial true"


def fetch(url: str, downloads: Path, name: str, sha256: str | None = None) -> None:
    """Downloads an archive and unpacks one of its folders, unless that is there.

    Args:
        url: of the archive; archives in it are unpacked as well.
        downloads: an archive of that name here is taken instead of a download.
        name: the folder in the archive, and below `downloads`.
        sha256: of the archive, if it is known.

    Raises:
        RecipeError: the archive cannot be had, is damaged or does not hold the folder.
    """
    target = downloads / name
    if target.is_dir():
        return
    archive = downloads / url.rpartition("/")[2]
    with alone(archive, "unpacking"):
        # it may be there meanwhile
        if not target.is_dir():
            download(url, archive, sha256)
            unfold(archive, target, name)


def unfold(archive: Path, target: Path, name: str) -> None:
    """Unpacks the folder of that name to `target`, and the archives in it."""
    with atomic_dir(target) as directory:
        unpack(archive, directory)
        inner = directory / name
        if not inner.is_dir():
            raise RecipeError(
                f"{archive} does not hold {name}: remove it and run this again"
            )
        for path in inner.iterdir():
            os.replace(path, directory / path.name)
        shutil.rmtree(directory / Path(name).parts[0])
        for path in sorted(directory.rglob("*.tar.gz")):
            unpack(path, path.parent)
            path.unlink()


def locate(folder: Path, name: str) -> Path:
    """The corpus itself, where people may give it or the folder that holds it."""
    return folder / name if (folder / name).is_dir() else folder


def content(root: Path, folders: Iterable[Path]) -> str:
    """What there is of a corpus, for the record of stage 1.

    Folders count by their times, which tell of new names in them, and files that are
    not audio by size and time: stage 1 reads no audio, the others look at it.
    """
    found, size = hashlib.blake2b(digest_size=4), 0
    for top in sorted(folders):
        for folder, subfolders, names in os.walk(top):
            subfolders.sort()
            told = [n for n in sorted(names) if not n.lower().endswith(AUDIO)]
            size += len(told)
            for path in (Path(folder), *(Path(folder, name) for name in told)):
                # a link to nothing is as good as any other file that is not read
                at = path.stat() if path.exists() else path.lstat()
                known = "" if path.is_dir() else at.st_size
                line = f"{path.relative_to(root)} {known} {at.st_mtime_ns}\n"
                found.update(os.fsencode(line))
    return f"{size} files ({found.hexdigest()})"


def present(
    root: Path, parts: dict[str, Path], partial: bool, remedy: str = TAKE
) -> list[str]:
    """The parts that there are.

    Args:
        root: the corpus, for errors.
        parts: the folder of each part.
        partial: some of them are enough.
        remedy: what else helps when some are missing.

    Raises:
        RecipeError: there is none, or one is missing and `partial` is false.
    """
    found = [name for name, path in parts.items() if any(path.glob("*"))]
    missing = [name for name in parts if name not in found]
    if len(missing) == len(parts):
        remedy = "or correct its path"
    elif partial:
        missing.clear()
    if missing:
        folders = ", ".join(str(parts[name].relative_to(root)) for name in missing)
        raise RecipeError(f"{root} lacks {folders}: unpack the corpus there, {remedy}")
    return found


def check_whole(
    root: Path, found: dict[str, int], whole: dict[str, int], partial: bool
) -> None:
    """Checks how much there is of each part.

    Args:
        root: the corpus, for errors.
        found: how many utterances each part has.
        whole: how many it has to have.
        partial: say so when the corpus is not whole, instead of the error.

    Raises:
        RecipeError: a part has another size and `partial` is false.
    """
    sizes = [
        f"{found.get(name, 0)} of {size} of {name}"
        for name, size in whole.items()
        if found.get(name, 0) != size
    ]
    if sizes and not partial:
        raise RecipeError(
            f"{root} has {', '.join(sizes)} (utterances): unpack the corpus again, "
            f"{TAKE}"
        )
    if sizes:
        say(f"  NOT THE WHOLE CORPUS: {root} has {', '.join(sizes)} (utterances)")


@contextmanager
def reading(root: Path) -> Iterator[None]:
    """Has lhotse read with libsndfile, and tells people what it complains about.

    Raises:
        RecipeError: lhotse cannot read a file of the corpus.
    """
    from lhotse.audio.backend import audio_backend

    warnings = BufferingHandler(sys.maxsize)
    warnings.setLevel(logging.WARNING)
    logger = logging.getLogger()
    logger.addHandler(warnings)
    try:
        # by itself lhotse reads NIST SPHERE through the program sph2pipe
        with audio_backend("LibsndfileBackend"):
            yield
    except UNREADABLE as error:
        raise RecipeError(
            f"lhotse cannot read {root} ({error}): unpack the corpus there again"
        ) from error
    finally:
        logger.removeHandler(warnings)
    if told := warnings.buffer:
        more = f" ({len(told) - 1} more)" if len(told) > 1 else ""
        say(f"  lhotse: {told[0].getMessage()}{more}")


def utterances(manifest: dict) -> DataDir:
    """The data directory of lhotse's manifests where a recording is an utterance."""
    supervisions = list(manifest["supervisions"])
    return DataDir(
        sources(manifest),
        {s.id: s.text for s in supervisions},
        {s.id: s.speaker for s in supervisions},
    )


def sources(manifest: dict) -> dict[str, str]:
    """Recording id to audio file."""
    return {r.id: r.sources[0].source for r in manifest["recordings"]}
