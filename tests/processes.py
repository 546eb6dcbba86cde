"""Processes: whether they have ended, and how they start faster."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROC = Path("/proc/self/stat")
needs_proc = pytest.mark.skipif(not PROC.exists(), reason="needs Linux's /proc")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    """Whether a process ends within a minute."""
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


def end_with_a_killed_parent(*words: object, count: int, cwd: Path) -> bool:
    """Whether the processes end whose numbers a killed Python program has printed.

    Args:
        words: the arguments of Python.
        count: how many there are.
        cwd: the program's folder, which it can import from too.
    """
    path = os.pathsep.join([str(ROOT), str(cwd)])
    with subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:
        told: list[int] = []
        while len(told) < count:
            line = parent.stdout.readline()
            assert line, "it has ended before it told its processes"
            told += map(int, line.split())
        assert all(map(alive, told))
        parent.kill()
    return all(map(gone, told))


def unchecked(*paths: object) -> dict[str, str]:
    """An environment in which ESPnet does not check the types of arguments.

    That takes half of the time that its programs start in.

    Args:
        paths: what programs import from beside this package and PYTHONPATH.
    """
    given = filter(None, [os.environ.get("PYTHONPATH")])
    found = [ROOT / "tests" / "data" / "unchecked", ROOT, *paths, *given]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, found))}
