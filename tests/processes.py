"""Whether processes have ended, as Linux tells, and how to do without any."""

import time
from pathlib import Path

import pytest

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
    """Whether a process ends within ten seconds."""
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


def in_this_process(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Spares the start of processes where a module would spread jobs."""
    monkeypatch.setattr(
        f"{module}.parallel_map",
        lambda function, jobs, *_: [function(job) for job in jobs],
    )
