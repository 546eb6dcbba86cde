"""Downloads go on where they stopped."""

import errno
import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from espnet_srupp.recipe import download as module
from espnet_srupp.recipe import locks
from espnet_srupp.recipe.download import ATTEMPTS, download
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
        self.chunked = self.stalls = False
        self.ended = threading.Event()
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
        if self.server.chunked:
            self.server.chunked = False
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n" % 300_000 + body[:300_000] + b"\r\n")
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.server.cuts.pop(0) if self.server.cuts else len(body)
        self.wfile.write(body[:cut])
        if self.server.stalls:
            self.server.stalls = False
            self.server.ended.wait(60)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.ended.set()
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


HELD = """
import fcntl, sys
fcntl.lockf(open(sys.argv[1], "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def test_an_archive_that_came_while_one_unpacks_it_is_still_unpacked_by_one(tmp_path):
    with locks.alone(tmp_path / "x", "unpacking"):
        with locks.alone(tmp_path / "x", "downloading"):
            pass
        (lock,) = (tmp_path / ".locks").glob("*unpacking*")
        other = subprocess.run([sys.executable, "-c", HELD, lock], capture_output=True)
        assert b"BlockingIOError" in other.stderr


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


def test_a_connection_may_break_often_if_each_brings_something(server, tmp_path):
    server.cuts = [100_000] * (ATTEMPTS + 1)
    download(server.url, tmp_path / "file", SHA256)
    assert len(server.ranges) == ATTEMPTS + 2


def test_an_answer_in_pieces_that_breaks_off_is_taken_up(server, tmp_path):
    server.chunked = True
    download(server.url, tmp_path / "file", SHA256)
    assert server.ranges == [None, "bytes=262144-"]


def test_a_server_that_sends_nothing_more_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.5)
    server.cuts, server.stalls = [300_000], True
    download(server.url, tmp_path / "file", SHA256)
    # what had come of a block that never became whole is asked for again
    assert server.ranges == [None, "bytes=262144-"]


def refuse(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_at_once_and_not_as_a_broken_connection(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "tqdm", refuse)
    with pytest.raises(RecipeError, match="no space left .* while writing .*file"):
        download(server.url, tmp_path / "file")
    assert len(server.ranges) == 1


def test_a_file_that_comes_in_parts_only_is_given_up(server, tmp_path):
    server.cuts, server.knows_ranges = [300_000, 200_000] * 2 * ATTEMPTS, False
    with pytest.raises(RecipeError, match="did not arrive"):
        download(server.url, tmp_path / "file")
    assert len(server.ranges) <= 2 * ATTEMPTS
