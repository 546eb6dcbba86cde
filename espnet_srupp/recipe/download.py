"""Downloads that go on where they stopped, and archives that stay inside a folder."""

import hashlib
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm import tqdm

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import full_disk_named, partial_name
from espnet_srupp.recipe.locks import alone

BLOCK = 1 << 18
# zipfile raises a RuntimeError for an encrypted file or an unknown compression, a
# ValueError for a name that is not UTF-8, and an IndexError for an empty one
ZIP_ERRORS = (RuntimeError, ValueError, LookupError)
# tarfile raises a KeyError for a hard link to what the archive does not hold
TAR_ERRORS = (tarfile.TarError, EOFError, zlib.error, LookupError)
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 5  # in a row that bring nothing new


def download(url: str, target: Path, sha256: str | None = None) -> None:
    """Downloads a file, unless it is there.

    What arrived before an interruption stays beside `target`; a broken connection is
    taken up again at once, a broken run by the next call.

    Args:
        url: http or https.
        target: the file, which appears only when it is complete.
        sha256: hexadecimal checksum that it must have, if it is known.

    Raises:
        RecipeError: the server cannot be reached or has no such file, the connection
            broke again and again, the checksum is another one, or the disk is full.
    """
    if target.exists():
        return
    with full_disk_named(target), alone(target, "downloading"):
        # it may have come meanwhile
        if not target.exists():
            arrive(url, target, sha256)


def arrive(url: str, target: Path, sha256: str | None) -> None:
    part = partial_name(target)
    failures = 0
    while True:
        before = size(part)
        try:
            with full_disk_named(target):
                fetch(url, part, target.name)
            break
        except (OSError, HTTPException) as error:
            failures = 1 if size(part) > before else failures + 1
            if failures == ATTEMPTS or isinstance(error, HTTPError):
                raise RecipeError(
                    f"{url} did not arrive ({error}): run the same command again "
                    f"later, or fetch it elsewhere and put it at {target}"
                ) from error
    if sha256 is not None and checksum(part) != sha256:
        part.unlink()
        raise RecipeError(
            f"{url} arrived with another SHA-256 than {sha256}: run the same command "
            f"again, or fetch it elsewhere and put it at {target}"
        )
    os.replace(part, target)


def fetch(url: str, part: Path, title: str) -> None:
    """Appends to `part` what it lacks, or begins anew where the server insists."""
    start = size(part)
    request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code != 416 or not start:
            raise
        # nothing after `start`: the last run got all of it and was stopped then, or
        # the file is another one now
        if error.headers["Content-Range"] == f"bytes */{start}":
            return
        part.unlink()
        raise ConnectionError("the file has changed on the server") from error
    rest = response.status == 206
    sent = response.headers["Content-Range"] or ""
    if rest and not sent.startswith(f"bytes {start}-"):
        part.unlink()
        raise ConnectionError(f"the server sent '{sent}' for bytes {start}-")
    with response, open(part, "ab" if rest else "wb") as file:
        length = response.headers["Content-Length"]
        total = file.tell() + int(length) if length else None
        with tqdm(
            desc=title, initial=file.tell(), total=total, unit="B", unit_scale=True
        ) as bar:
            while block := response.read(BLOCK):
                file.write(block)
                bar.update(len(block))
        if total is not None and file.tell() < total:
            raise ConnectionError(f"only {file.tell()} of {total} bytes")


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def checksum(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


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
