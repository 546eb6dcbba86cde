"""Memory that was freed is kept, unless a user has chosen otherwise."""

import platform
import subprocess
import sys
from unittest.mock import Mock

import pytest

from espnet_srupp import heap

SCRIPT = """
import resource, torch
from espnet_srupp import heap

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def taken():
    before = faults()
    for _ in range(10):
        torch.ones(2**24)
    return faults() - before

taken()
first = taken()
kept = heap.keep_freed()
# a small object may end up in the place of a tensor's first bytes
print(kept, first, min(taken() for _ in range(5)))
"""
needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="needs glibc"
)


@pytest.fixture
def nothing_chosen(monkeypatch):
    for name in heap.CHOICES:
        monkeypatch.delenv(name, raising=False)


@needs_glibc
def test_the_next_tensors_take_no_new_pages(nothing_chosen):
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    kept, before, after = done.stdout.split()
    assert kept == "True"
    assert int(after) < int(before) / 10


@pytest.mark.parametrize("name", [*heap.CHOICES])
def test_what_a_user_has_chosen_stays(nothing_chosen, name, monkeypatch):
    library = Mock()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _: library)
    value = "glibc.malloc.mmap_max=1" if name == "GLIBC_TUNABLES" else "65536"
    monkeypatch.setenv(name, value)
    assert not heap.keep_freed()
    assert not library.mallopt.called


def test_a_tunable_of_something_else_is_no_choice(nothing_chosen, monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.x86_ibt=off")
    assert not heap.chosen()


def test_another_system_keeps_its_way(nothing_chosen, monkeypatch):
    # Windows has no library without a name
    monkeypatch.setattr(heap.ctypes, "CDLL", Mock(side_effect=TypeError))
    monkeypatch.setattr(sys, "platform", "win32")
    assert not heap.keep_freed()


def test_another_c_library_keeps_its_way(nothing_chosen, monkeypatch):
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _: object())
    assert not heap.keep_freed()
