"""`make` sets up an environment whole, and once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKE = shutil.which("make")
STAMP = "python-{}.{}".format(*sys.version_info)
STEPS = "torch", "installed"  # in the order of the steps that they are of

pytestmark = pytest.mark.skipif(MAKE is None, reason="needs make")


def make(venv, *words):
    words = [MAKE, f"VENV={venv}", f"PYTHON={sys.executable}", *words]
    root = Path(__file__).parent.parent
    return subprocess.run(words, cwd=root, capture_output=True, text=True)


def steps(venv):
    """Which steps of setting it up `make` would do."""
    done = make(venv, "-n", "install")
    assert done.returncode == 0, done.stderr
    return [n for n in "123" if f"'[{n}/3]" in done.stdout]


def test_of_another_python_nothing_is_left(tmp_path):
    for step in STEPS:
        (tmp_path / step).touch()
    (tmp_path / "python-3.9").touch()
    assert steps(tmp_path) == ["1", "2", "3"]


def test_what_is_there_is_not_done_again(tmp_path):
    (tmp_path / STAMP).touch()
    assert steps(tmp_path) == ["2", "3"]
    for step in STEPS:
        (tmp_path / step).touch()
    assert steps(tmp_path) == []


def test_an_environment_of_ones_own_is_not_emptied(tmp_path):
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    done = make(tmp_path, tmp_path / STAMP)
    assert done.returncode != 0 and "that make has not made" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pyvenv.cfg"]


def test_what_an_interruption_left_is_made_again(tmp_path):
    assert make(tmp_path, tmp_path / STAMP).returncode == 0
    (tmp_path / STAMP).unlink()
    done = make(tmp_path, tmp_path / STAMP)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / STAMP).exists()
