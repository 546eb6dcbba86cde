"""Programs by a scheduler, whose workers are threads here."""

import contextlib
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from espnet_srupp.recipe import parallel, process
from espnet_srupp.recipe.process import Job

PYTHON = shlex.quote(sys.executable)
OUTPUT = "import os, sys; os.mkdir(sys.argv[1]); print(os.environ['WHERE'])"


@pytest.fixture
def asked(monkeypatch):
    """For how many workers a scheduler was asked, each time."""
    numbers = []

    @contextlib.contextmanager
    def executor(nj, title, scheduler):
        numbers.append(nj)
        with ThreadPoolExecutor(nj) as pool:
            yield pool

    monkeypatch.setattr(process, "executor", executor)
    monkeypatch.setattr(process, "cores", lambda: 2)
    return numbers


# Slurm's jobs are on other machines
@pytest.mark.parametrize(("scheduler", "workers"), [("local", 2), (parallel.SLURM, 3)])
def test_programs_have_their_workers_and_replace_what_was_there(
    scheduler, workers, asked, tmp_path, monkeypatch
):
    def attempt(folder, python, environment, wanted, job):
        threads.append(environment["OMP_NUM_THREADS"])
        own = job.output.with_name(f"own{job.output.name}")
        own.mkdir()
        return 0, own

    def left():
        return sum((job.output / "earlier").exists() for job in jobs)

    threads, watched = [], []
    jobs = [Job([], tmp_path / f"log{n}", tmp_path / f"{n}") for n in range(3)]
    for job in jobs:
        job.output.mkdir()
        (job.output / "earlier").touch()
    monkeypatch.setattr(process, "attempt", attempt)
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    process.run(jobs, PYTHON, lambda: watched.append(left()), scheduler=scheduler)
    assert asked == [workers]
    assert threads == ["6"] * 3
    assert (watched[0], watched[-1]) == (3, 0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1", "2"]


def test_a_program_run_again_shares_no_file_with_a_run_that_is_lost(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("WHERE", "at the worker's")
    job = Job(["-c", OUTPUT, "x"], Path("log"), Path("x"))
    (tmp_path / "log").write_text("lost")
    environment = {"WHERE": "at the caller's"}
    with open(tmp_path / "log") as lost:
        attempts = [
            process.attempt(tmp_path, PYTHON, environment, Path(), job)
            for _ in range(2)
        ]
        assert lost.read() == "lost"
    assert [code for code, _ in attempts] == [0, 0]
    assert len({own for _, own in attempts}) == 2 and not (tmp_path / "x").exists()
    # such as the GPUs that it has
    assert (tmp_path / "log").read_text().endswith("\nat the worker's\n")


def test_a_program_ends_on_its_worker_with_the_run(asked, tmp_path, monkeypatch):
    def watch():
        if Path("begun").exists():
            raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    code = "import time; open('begun', 'w'); time.sleep(5); open('done', 'w')"
    with pytest.raises(KeyboardInterrupt):
        process.run(
            [Job(["-c", code], Path("log"), Path("x"))], PYTHON, watch, scheduler="a:1"
        )
    # its worker is free again
    assert sorted(p.name for p in tmp_path.iterdir()) == ["begun", "log"]
