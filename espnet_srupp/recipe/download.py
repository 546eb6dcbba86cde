"""Downloads that go on where they stopped."""

import hashlib
import os
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm import tqdm

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import full_disk_named, partial_name
from espnet_srupp.recipe.locks import alone

BLOCK = 1 << 18
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
    failures, most = 0, size(part)
    while True:
        try:
            with full_disk_named(target):
                fetch(url, part, target.name)
            break
        except (OSError, HTTPException) as error:
            # a server that knows no ranges begins anew: less than before is no news
            failures = 1 if size(part) > most else failures + 1
            most = max(most, size(part))
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
