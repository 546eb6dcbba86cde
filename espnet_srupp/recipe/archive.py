"""Archives, unpacked so that nothing lands outside of their folder."""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from espnet_srupp.recipe.errors import RecipeError

BLOCK = 1 << 18
# zipfile raises a RuntimeError for an encrypted file or an unknown compression, a
# ValueError for a name that is not UTF-8, and an IndexError for an empty one
ZIP_ERRORS = (RuntimeError, ValueError, LookupError)
# tarfile raises a KeyError for a hard link to what the archive does not hold, and a
# ValueError or an OverflowError for a name or a time that no file can have
TAR_ERRORS = (
    *(tarfile.TarError, EOFError, zlib.error),
    *(LookupError, ValueError, OverflowError),
)


def unpack(archive: Path, target: Path) -> None:
    """Unpacks a tar (plain, gz, bz2, xz) or zip archive into an existing folder.

    Args:
        archive: the file.
        target: the folder; use `atomic_dir` to have all of it or nothing.

    Raises:
        RecipeError: the archive is missing, corrupt or truncated, or holds an absolute
            path, a "..", a link that leads out of the folder, or a device.
    """
    if not archive.is_file():
        raise RecipeError(f"the archive {archive} is missing: correct its path")
    if not hasattr(tarfile, "data_filter"):
        raise RecipeError(
            "this Python cannot unpack safely: use 3.10.12, 3.11.4, 3.12 or newer"
        )
    try:
        # a tar may end with a zip, which zipfile takes for the whole
        if zipfile.is_zipfile(archive) and not tarfile.is_tarfile(archive):
            unzip(archive, target)
        else:
            with tarfile.open(archive) as file:
                places = Places()
                extract(
                    archive,
                    file,
                    places.take_member,
                    lambda member: file.extract(member, target, filter="data"),
                )
                # tarfile stops before the checksum at the end of gz, bz2 and xz
                while file.fileobj.read(BLOCK):
                    pass
    except tarfile.FilterError as error:
        raise RecipeError(f"{archive} is not safe to unpack: {error}") from error
    except (*TAR_ERRORS, zipfile.BadZipFile) as error:
        raise corrupt(archive, error) from error
    except (lzma.LZMAError, OSError) as error:
        # the decompressors of gz and bz2 raise an OSError without a number
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise corrupt(archive, error) from error


def unzip(archive: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as file:
            names = file.namelist()
            places = Places()
            extract(
                archive, names, places.take, lambda name: file.extract(name, target)
            )
    except ZIP_ERRORS as error:
        raise corrupt(archive, error) from error


def extract(
    archive: Path, members: Iterable, take: Callable, extract_one: Callable
) -> None:
    for member in tqdm(members, f"unpacking {archive.name}", unit="file", disable=None):
        try:
            take(member)
        except ValueError as error:
            raise RecipeError(
                f"{archive} is not safe to unpack: it holds '{error}', which does not "
                "stay in its folder; fetch it from another place"
            ) from error
        extract_one(member)


class Places:
    """Where members of an archive lie, told by their names alone.

    tarfile's filter asks the file system, whose answer is wrong where links make a path
    too long for it (CVE-2025-4517, before Python 3.12.11). So nothing may lie behind a
    link.
    """

    def __init__(self) -> None:
        self.links: set[PurePosixPath] = set()
        self.folders = {PurePosixPath()}

    def take_member(self, member: tarfile.TarInfo) -> None:
        """Raises ValueError, with its name, if the member or its link leads out."""
        self.take(member.name)
        path, link = PurePosixPath(member.name), PurePosixPath(member.linkname)
        if member.issym():
            if path in self.folders:
                raise ValueError(path)
            self.links.add(path)
            above = path.parent
            while link.parts[:1] == ("..",) and above.parts:
                above, link = above.parent, PurePosixPath(*link.parts[1:])
            self.take(above / link, member.name)
        elif member.islnk():
            self.take(link, member.name)

    def take(self, name: str | PurePosixPath, member: str = "") -> None:
        """Raises ValueError, with the member's name, if a path is not inside."""
        path = PurePosixPath(name)
        folders = set(path.parents)
        if path.is_absolute() or ".." in path.parts or folders & self.links:
            raise ValueError(member or path)
        self.folders |= folders


def corrupt(archive: Path, error: Exception) -> RecipeError:
    reason = " ".join(str(error).split())
    return RecipeError(
        f"{archive} is corrupt or truncated ({reason}): remove it and fetch it again"
    )
