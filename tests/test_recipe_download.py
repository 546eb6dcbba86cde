"""Downloads go on where they stopped; archives cannot write outside their folder."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from espnet_srupp.recipe.download import ATTEMPTS, download, unpack
from espnet_srupp.recipe.errors import RecipeError

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT as /file; breaks off after `cuts` bytes, one cut per request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts: list[int] = []
        self.ranges: list[str | None] = []
        self.knows_ranges = True
        self.sends_other_bytes = False
        self.url = f"http://127.0.0.1:{self.server_port}/file"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers["Range"]
        self.server.ranges.append(wanted)
        if self.path != "/file":
            self.send_error(404)
            return
        start = 0
        if wanted and self.server.knows_ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(CONTENT):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
                self.end_headers()
                return
            self.send_response(206)
            first = 0 if self.server.sends_other_bytes else start
            last = len(CONTENT) - 1
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(CONTENT)}")
        else:
            self.send_response(200)
        body = CONTENT[0 if self.server.sends_other_bytes else start :]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(body)
        self.wfile.write(body[:cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_downloads_and_leaves_only_the_file(server, tmp_path):
    download(server.url, tmp_path / "new" / "file", SHA256)
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT
    assert sorted(os.listdir(tmp_path / "new")) == [".locks", "file"]


def test_of_two_at_once_one_downloads_and_the_other_waits_for_it(server, tmp_path):
    server.cuts = [0]
    target = tmp_path / "file"
    code = (
        "import sys; from pathlib import Path;"
        "from espnet_srupp.recipe.download import download;"
        "download(sys.argv[1], Path(sys.argv[2]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", code, server.url, str(target)]
    both = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert target.read_bytes() == CONTENT
    # the second time as the connection broke
    assert server.ranges == [None, None]


def test_a_file_that_is_there_is_not_fetched(server, tmp_path):
    (tmp_path / "file").write_text("mine")
    download(server.url, tmp_path / "file")
    assert server.ranges == []


def test_a_broken_connection_is_taken_up_where_it_broke(server, tmp_path):
    server.cuts = [300_000, 200_000]
    download(server.url, tmp_path / "file", SHA256)
    assert server.ranges == [None, "bytes=300000-", "bytes=500000-"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_broken_run_is_taken_up_by_the_next(server, tmp_path):
    server.cuts = [300_000, *[0] * ATTEMPTS]
    with pytest.raises(RecipeError, match="only 300000 of 1024000 bytes.*again"):
        download(server.url, tmp_path / "file", SHA256)
    assert not (tmp_path / "file").exists()
    server.cuts, server.ranges = [], []
    download(server.url, tmp_path / "file", SHA256)
    assert server.ranges == ["bytes=300000-"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_run_that_was_stopped_at_the_last_byte_is_finished(server, tmp_path):
    (tmp_path / ".file.partial").write_bytes(CONTENT)
    download(server.url, tmp_path / "file", SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT
    # and nothing of it fetched again
    assert server.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_server_that_knows_no_ranges_sends_all_again(server, tmp_path):
    server.cuts, server.knows_ranges = [300_000], False
    download(server.url, tmp_path / "file", SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_file_that_has_become_shorter_is_fetched_anew(server, tmp_path):
    (tmp_path / ".file.partial").write_bytes(CONTENT + b"more")
    download(server.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_bytes_that_were_not_asked_for_are_not_appended(server, tmp_path):
    server.sends_other_bytes = True
    (tmp_path / ".file.partial").write_bytes(CONTENT[:1000])
    download(server.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_another_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(RecipeError, match=f"another SHA-256 than {'0' * 64}"):
        download(server.url, tmp_path / "file", "0" * 64)
    assert os.listdir(tmp_path) == [".locks"]


def test_a_file_that_the_server_does_not_have_is_named_at_once(server, tmp_path):
    with pytest.raises(RecipeError, match="other did not arrive .*404.*put it at"):
        download(server.url.replace("file", "other"), tmp_path / "file")
    assert len(server.ranges) == 1


def test_an_unreachable_server_is_named(tmp_path):
    with pytest.raises(RecipeError, match="127.0.0.1:1/file did not arrive"):
        download("http://127.0.0.1:1/file", tmp_path / "file")


def tar(path, *members, mode="w:gz"):
    """A tar archive of (name, type, link target or content)."""
    with tarfile.open(path, mode) as file:
        for name, kind, value in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(value)
                file.addfile(info, io.BytesIO(value))
            else:
                info.linkname = value
                file.addfile(info)
    return path


REGULAR, LINK = tarfile.REGTYPE, tarfile.SYMTYPE


def too_long():
    """tarfile's filter does not see where "evil" leads before Python 3.12.11."""
    folder, members, real, short = "d" * 247, [], "", ""
    for name in "abcdefghijklmnop":
        real, short = f"{real}{folder}/", f"{short}{name}/"
        up = real.removesuffix(f"{folder}/")
        members += [(real, tarfile.DIRTYPE, ""), (f"{up}{name}", LINK, folder)]
    end = f"{short}{'l' * 254}"
    members += [(end, LINK, "../" * 16), ("above", LINK, f"{end}/..")]
    evil = ("evil", tarfile.LNKTYPE, "above/secret"), ("evil", REGULAR, b"x")
    return [*members, *evil]


HOSTILE = {
    "absolute": [("{outside}/evil", REGULAR, b"x")],
    "dots": [("a/../../evil", REGULAR, b"x")],
    "link to outside": [("a", LINK, "../.."), ("a/evil", REGULAR, b"x")],
    "absolute link": [("a", LINK, "{outside}"), ("a/evil", REGULAR, b"x")],
    "hard link": [("a", tarfile.LNKTYPE, "../secret")],
    "through a link": [("a", LINK, "b"), ("a/evil", REGULAR, b"x")],
    "linked to through a link": [("a", LINK, "b"), ("c", LINK, "a/../../evil")],
    "a link in the place of a folder": [("a/b", REGULAR, b"x"), ("a", LINK, "b")],
    "a path that links make too long": too_long(),
    "device": [("a", tarfile.CHRTYPE, "")],
    "pipe": [("a", tarfile.FIFOTYPE, "")],
}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_unpacks_a_tar(tmp_path, mode):
    members = [
        ("a/b.txt", REGULAR, b"content"),
        ("a/c.txt", LINK, "b.txt"),
        ("d/e/f.txt", LINK, "../../a/c.txt"),
        ("d/g.txt", tarfile.LNKTYPE, "a/b.txt"),
    ]
    unpack(tar(tmp_path / "x.tar", *members, mode=mode), tmp_path / "out")
    for name in ("a/c.txt", "d/e/f.txt", "d/g.txt"):
        assert (tmp_path / "out" / name).read_bytes() == b"content"


def test_unpacks_a_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("a/b.txt", "content")
    unpack(tmp_path / "x.zip", tmp_path / "out")
    assert (tmp_path / "out/a/b.txt").read_bytes() == b"content"


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_nothing_of_a_tar_lands_outside(tmp_path, members):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    out = outside / "out"
    out.mkdir()
    hostile = [
        (name.format(outside=outside), kind, value)
        if kind == REGULAR
        else (name, kind, value.format(outside=outside))
        for name, kind, value in members
    ]
    with pytest.raises(RecipeError, match="x.tar is not safe to unpack"):
        unpack(tar(tmp_path / "x.tar", *hostile), out)
    assert sorted(os.listdir(outside)) == ["out", "secret"]
    assert (outside / "secret").read_bytes() == b""
    assert not (out / "a/evil").exists()


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil-of-a-test"])
def test_nothing_of_a_zip_lands_outside(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr(name, "x")
    with pytest.raises(RecipeError, match="x.zip is not safe to unpack"):
        unpack(tmp_path / "x.zip", tmp_path / "out")
    assert os.listdir(tmp_path) == ["x.zip"]


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("fault", ["truncated", "corrupt", "no archive"])
def test_a_bad_tar_is_named(tmp_path, mode, fault):
    content = os.urandom(100_000)
    path = tar(tmp_path / "x.tar", ("a", REGULAR, content), mode=mode)
    data = bytearray(path.read_bytes())
    if fault == "truncated":
        del data[len(data) // 2 :]
    elif fault == "corrupt":
        data[len(data) // 2 : len(data) // 2 + 2000] = bytes(2000)
    else:
        data = b"not an archive"
    path.write_bytes(data)
    with pytest.raises(RecipeError, match="x.tar is corrupt or truncated") as error:
        unpack(path, tmp_path / "out")
    assert "\n" not in str(error.value)


def test_a_tar_whose_last_member_is_a_zip_is_a_tar(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("inner", "x")
    members = [("a", REGULAR, b"content"), ("b.zip", REGULAR, content.getvalue())]
    unpack(tar(tmp_path / "x.tar", *members, mode="w"), tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["a", "b.zip"]


def test_a_link_to_what_an_archive_does_not_hold_is_named(tmp_path):
    path = tar(tmp_path / "x.tar", ("a", tarfile.LNKTYPE, "missing"))
    with pytest.raises(RecipeError, match="x.tar is corrupt or truncated .*missing"):
        unpack(path, tmp_path / "out")


def test_a_corrupt_zip_is_named(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", "content " * 1000)
    path.write_bytes(path.read_bytes().replace(b"content", b"CONTENT", 1))
    with pytest.raises(RecipeError, match="x.zip is corrupt or truncated"):
        unpack(path, tmp_path / "out")


def test_a_missing_archive_is_named(tmp_path):
    with pytest.raises(RecipeError, match="x.tar is missing"):
        unpack(tmp_path / "x.tar", tmp_path / "out")


def test_a_connection_may_break_often_if_each_brings_something(server, tmp_path):
    server.cuts = [100_000] * (ATTEMPTS + 1)
    download(server.url, tmp_path / "file", SHA256)
    assert len(server.ranges) == ATTEMPTS + 2
