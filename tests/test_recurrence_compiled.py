"""numba's cache may be out of reach, full, or shared: the numbers are the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
COMPILED = ROOT / "espnet_srupp" / "recurrence" / "compiled.py"
DOUBLE = """
from compiled import jit

@jit
def double(n):
    return 2 * n

print(double(21))
"""
UNWRITABLE = """
from numba.core import caching

# what numba does where it may write to no folder that it knows
caching.CacheImpl._locator_classes = []
"""
FULL = """
import resource

# every write beyond so many bytes of a file fails from here on
limit = int(open("limit").read())
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
"""
BUSY = """
import threading
import time

from compiled import jit

@jit
def divide(n):
    a = 1.0
    for i in range(n):
        a = i / (a + 3)
    return a

divide(1)
thread = threading.Thread(target=divide, args=(10**8,))
thread.start()
rounds = 0
while thread.is_alive():
    time.sleep(0.001)
    rounds += 1
print(rounds)
"""
RECURRENCE = """
import torch
from espnet_srupp.recurrence import recurrence

torch.manual_seed(0)
shapes = (7, 2, 3, 8), (7, 2, 8), (2, 8), (2, 8)
h, c = recurrence(*(torch.randn(shape) for shape in shapes), bidirectional=True)
print(h.numpy().tobytes().hex(), c.numpy().tobytes().hex())
"""


@pytest.fixture
def start(tmp_path):
    """Starts a script that has its own cache, empty at first."""
    # by itself it is there without torch
    shutil.copy(COMPILED, tmp_path)

    def starter(text):
        script = tmp_path / "script.py"
        if not script.exists() or script.read_text() != text:
            script.write_text(text)
        return subprocess.Popen(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
                # Python tells a module's change by its size and its whole seconds
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return starter


def test_what_is_compiled_is_kept(start, tmp_path):
    text = DOUBLE + "print(sum(double.stats.cache_hits.values()))"
    assert start(text).communicate() == ("42\n0\n", "")
    assert list(tmp_path.glob("cache/*/*.nbc"))
    assert start(text).communicate() == ("42\n1\n", "")


def test_what_is_compiled_for_each_type_is_kept_by_itself(start):
    text = DOUBLE + "print(double(1.5), sum(double.stats.cache_hits.values()))"
    assert start(text).communicate() == ("42\n3.0 0\n", "")
    assert start(text).communicate() == ("42\n3.0 2\n", "")


def test_other_threads_go_on_while_compiled_code_runs(start):
    output, errors = start(BUSY).communicate()
    assert int(output) > 10 and not errors


def test_a_change_in_a_file_beside_it_compiles_anew(start, tmp_path):
    text = DOUBLE.replace("2 * n", "twice(n)")
    neighbour = "@jit\ndef twice(n):\n    return {} * n\n"
    header = "from compiled import jit\n\n"
    outputs = []
    for factor in (2, 3):
        (tmp_path / "neighbour.py").write_text(header + neighbour.format(factor))
        outputs.append(start("from neighbour import twice\n" + text).communicate()[0])
    assert outputs == ["42\n", "63\n"]


@pytest.mark.parametrize("fault", [UNWRITABLE, FULL], ids=["unwritable", "full"])
def test_what_cannot_be_kept_is_compiled_each_time(start, tmp_path, fault):
    (tmp_path / "limit").write_text("0")
    output, errors = start(fault + DOUBLE).communicate()
    assert output == "42\n"
    assert errors.count("RuntimeWarning: the recurrence is compiled again in each") == 1
    assert not list(tmp_path.glob("cache/*/*.nbc"))


def test_a_disk_that_fills_up_leaves_nothing_of_an_older_source(start, tmp_path):
    outputs = []
    # the second is enough for numba's list of what is kept, and for no machine code
    for factor, limit in ((2, "-1"), (3, "2000"), (3, "-1"), (3, "-1")):
        (tmp_path / "limit").write_text(limit)
        text = FULL + DOUBLE.replace("2 * n", f"{factor} * n")
        outputs.append(start(text).communicate())
    assert [output for output, _ in outputs] == ["42\n", "63\n", "63\n", "63\n"]
    assert [bool(errors) for _, errors in outputs] == [False, True, False, False]


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("size", [0, 50])
def test_a_damaged_file_is_made_again(start, tmp_path, suffix, size):
    text = DOUBLE + "print(sum(double.stats.cache_hits.values()))"
    assert start(text).communicate() == ("42\n0\n", "")
    (path,) = tmp_path.glob(f"cache/*/*.{suffix}")
    path.write_bytes(path.read_bytes()[:size])
    outputs = [start(text).communicate() for _ in range(2)]
    assert outputs == [("42\n0\n", ""), ("42\n1\n", "")]


def test_an_editors_link_to_nothing_does_not_matter(start, tmp_path):
    (tmp_path / ".#script.py").symlink_to("user@machine.1234")
    (tmp_path / "lock.py").symlink_to("user@machine.1234")
    assert start(DOUBLE).communicate() == ("42\n", "")


def test_processes_that_fill_one_cache_at_once_agree(start):
    processes = [start(RECURRENCE) for _ in range(2)]
    outputs = {process.communicate() for process in processes}
    # and one more, which finds it filled
    outputs.add(start(RECURRENCE).communicate())
    ((numbers, errors),) = outputs
    assert numbers and not errors
