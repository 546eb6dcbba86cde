"""Which Python a run.sh runs: an active one, any with ESPnet, or the repository's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def command(folder, code):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return folder


def chosen(root, python, **environment):
    shell = ". recipes/path.sh; command -v python3"
    path = f"{python}:{Path(shutil.which('bash')).parent}:/usr/bin:/bin"
    words = ["bash", "-euc", shell]
    told = subprocess.check_output(
        words, cwd=root, env={"PATH": path, **environment}, text=True
    )
    return Path(told.strip()).parent


@pytest.fixture
def root(tmp_path):
    """A repository with an environment of its own."""
    (tmp_path / "recipes").mkdir()
    shutil.copy(ROOT / "recipes" / "path.sh", tmp_path / "recipes")
    # exit codes of the question whether it has ESPnet
    command(tmp_path / ".venv" / "bin", 0)
    return tmp_path


def test_a_python_without_espnet_gives_way(root, tmp_path):
    assert chosen(root, command(tmp_path / "bare", 1)) == root / ".venv" / "bin"


def test_the_environment_of_a_chosen_python_serves_where_it_is_the_only_one(
    root, tmp_path
):
    bare = command(tmp_path / "bare", 1)
    other = command(tmp_path / ".venv-3.12" / "bin", 0)
    assert chosen(root, bare) == root / ".venv" / "bin"
    shutil.rmtree(root / ".venv")
    assert chosen(root, bare) == other
    shutil.rmtree(root / ".venv-3.12")
    assert chosen(root, bare) == bare


def test_an_environment_that_was_not_finished_gives_way(root, tmp_path):
    command(root / ".venv" / "bin", 1)
    other = command(tmp_path / ".venv-3.12" / "bin", 0)
    assert chosen(root, command(tmp_path / "bare", 1)) == other


def test_a_python_with_espnet_wins_as_that_of_conda(root, tmp_path):
    conda = command(tmp_path / "conda", 0)
    assert chosen(root, conda) == conda


def test_an_active_virtual_environment_wins(root, tmp_path):
    active = command(tmp_path / "active", 1)
    assert chosen(root, active, VIRTUAL_ENV="active") == active


def test_a_folder_with_a_colon_is_refused(root):
    (root / "a:b").mkdir()
    (root / "recipes").rename(root / "a:b" / "recipes")
    words = ["bash", "-euc", ". a:b/recipes/path.sh; echo on"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "a:b, which holds a colon: rename the folder" in done.stderr


def test_this_python_is_seen_to_have_espnet(root):
    pytest.importorskip("espnet2")
    assert os.access(Path(sys.executable).with_name("python3"), os.X_OK)
    here = Path(sys.executable).parent
    assert chosen(root, here) == here
