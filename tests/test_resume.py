"""A training killed again and again ends where one in peace does, bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import unchecked

ROOT = Path(__file__).parents[1]
DRIVER = ROOT / "tests" / "data" / "kill_training.py"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What both trainings have left."""
    folder = tmp_path_factory.mktemp("trained")
    environment = unchecked() | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(DRIVER), str(folder), "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_it_was_killed_and_resumed(trained):
    # each of the four kills in a write strikes, and at least two go on from an epoch
    assert trained["finished"][:4] == [False] * 4
    assert trained["resumed"] >= 2
    # from the first epoch's model on there is always a checkpoint
    assert trained["loadable"] == [False, False, True, True, True, True]


def test_parameters_optimiser_and_averages_are_bit_equal(trained):
    assert trained["killed"] == trained["peace"]
    assert {"model", "optimizers", "valid.acc.ave.pth"} <= trained["peace"].keys()
