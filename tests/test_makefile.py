"""`make` sets up an environment whole, and once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKE = shutil.which("make")
STEPS = "torch", "installed"  # in the order of the steps that they are of

pytestmark = pytest.mark.skipif(MAKE is None, reason="needs make")


def steps(venv):
    """Which steps of setting it up `make` would do."""
    words = [MAKE, "-n", f"VENV={venv}", f"PYTHON={sys.executable}", "install"]
    done = subprocess.run(
        words, cwd=Path(__file__).parent.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [n for n in "123" if f"'[{n}/3]" in done.stdout]


def test_of_another_python_nothing_is_left(tmp_path):
    for step in STEPS:
        (tmp_path / step).touch()
    (tmp_path / "python-3.9").touch()
    assert steps(tmp_path) == ["1", "2", "3"]


def test_what_is_there_is_not_done_again(tmp_path):
    (tmp_path / "python-{}.{}".format(*sys.version_info)).touch()
    assert steps(tmp_path) == ["2", "3"]
    for step in STEPS:
        (tmp_path / step).touch()
    assert steps(tmp_path) == []
