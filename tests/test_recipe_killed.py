"""Stages killed at any moment and run again leave the files of a run in peace."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import unchecked

HERE = Path(__file__).parent

pytestmark = pytest.mark.once


def test_stages_that_were_killed_anywhere_leave_the_same_files(tmp_path):
    words = [HERE / "data" / "kill_stages.py", tmp_path, "0", "6"]
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env=unchecked(HERE),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] >= 6
    assert found["others"] == []
