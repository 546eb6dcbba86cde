"""Jobs run in several processes, in order, and a bad end of one is told."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import end_with_a_killed_parent, needs_proc

from espnet_srupp import children
from espnet_srupp.recipe import parallel
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.parallel import parallel_map


def square(number):
    # later jobs are done earlier
    time.sleep(0.01 * (5 - number % 5))
    return number**2


def refuse_odd(number):
    if number % 2:
        raise RecipeError(f"{number} is odd: take another")


def process_id(folder):
    """Waits until two processes are at work, and no longer than a while."""
    (folder / f"{os.getpid()}").touch()
    deadline = time.monotonic() + 30
    while len(os.listdir(folder)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    return os.getpid()


def kill_self(number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("nj", [1, 3])
def test_results_come_in_the_order_of_the_jobs(nj):
    assert parallel_map(square, range(50), nj, "work") == [n**2 for n in range(50)]


def test_no_jobs_give_no_results_and_need_no_scheduler():
    assert parallel_map(square, [], 2, "work", scheduler="nowhere") == []


def test_the_way_is_told_up_to_its_end(capsys):
    parallel_map(held, range(50), 1, "work", "texts")
    assert capsys.readouterr().out.splitlines()[-1] == "  work: 50/50 texts"


def test_there_are_no_more_processes_than_jobs(monkeypatch):
    @contextlib.contextmanager
    def executor(nj, title, scheduler):
        asked.append(nj)
        with ThreadPoolExecutor(nj) as pool:
            yield pool

    asked = []
    monkeypatch.setattr(parallel, "executor", executor)
    parallel_map(held, [1, 2], 32, "work")
    assert asked == [2]


def test_jobs_run_in_as_many_processes_as_asked(tmp_path):
    ids = parallel_map(process_id, [tmp_path] * 8, 2, "work")
    assert len(set(ids)) == 2 and os.getpid() not in ids


@pytest.mark.parametrize("nj", [1, 3])
def test_the_first_error_in_the_order_of_the_jobs_is_raised(nj):
    with pytest.raises(RecipeError, match="^1 is odd: take another$"):
        parallel_map(refuse_odd, range(50), nj, "work")


def test_a_killed_process_is_told():
    with pytest.raises(RecipeError, match="killed during 'work'.*--nj"):
        parallel_map(kill_self, [1, 2], 2, "work")


def test_a_scheduler_without_dask_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RecipeError, match=r"needs Dask: run pip install '.\[dask\]'"):
        parallel_map(square, [1], 1, "work", scheduler="local")


AT_WORK = """
import os, time
from pathlib import Path
from espnet_srupp.recipe.parallel import parallel_map
def work(number):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)
parallel_map(work, [1, 2], 2, "work")
"""


@needs_proc
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    assert end_with_a_killed_parent("-c", AT_WORK, count=2, cwd=tmp_path)


def test_a_worker_whose_parent_was_killed_before_it_began_ends():
    child = multiprocessing.get_context("fork").Process(
        target=parallel.begin, args=(0,)
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("names", [["a", "a"], ["a", "b"]], ids=["one", "two"])
def test_threads_of_a_worker_share_a_folder_or_wait(tmp_path, monkeypatch, names):
    """One recipe's jobs run side by side, another's when they have ended."""
    monkeypatch.chdir(tmp_path)
    together = threading.Barrier(2)

    def work(_):
        with contextlib.suppress(threading.BrokenBarrierError):
            # those of one recipe meet, however slow the machine is
            together.wait(30 if len(set(names)) == 1 else 0.5)
        return os.getcwd()

    for name in set(names):
        Path(name).mkdir()
    homes = [tmp_path / name for name in names]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda home: parallel.in_folder(home, work, [0]), homes)
        assert [Path(path) for (path,) in found] == homes
    assert together.broken == (names == ["a", "b"])


def test_a_job_that_fails_leaves_its_folder_to_other_threads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError):
        parallel.in_folder(tmp_path, refuse_odd, [1])
    assert parallel.INSIDE == []


def test_an_error_leaves_no_jobs_to_be_done():
    with pytest.raises(RecipeError), parallel.executor(1, "work", "") as pool:
        futures = [pool.submit(time.sleep, 0.01) for _ in range(100)]
        raise RecipeError("no")
    assert futures[-1].cancelled()


IDLE = """
import signal, time
from pathlib import Path
from espnet_srupp.recipe.parallel import parallel_map
# a suite in the background may have been started with it ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
def work(number):
    Path(f"begun{number}").touch()
    while number and not Path("end").exists():
        time.sleep(0.01)
parallel_map(work, [0, 1], 2, "work")
"""


def test_an_interrupt_is_told_once_and_not_by_workers_that_wait(tmp_path):
    root = str(Path(parallel.__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", IDLE],
        **{"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": root}},
        **{"stderr": subprocess.PIPE, "text": True, "start_new_session": True},
    )
    while not all((tmp_path / f"begun{number}").exists() for number in range(2)):
        assert process.poll() is None
        time.sleep(0.01)
    # until a worker waits for more
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    (tmp_path / "end").touch()
    _, errors = process.communicate()
    assert errors.count("Traceback") == 1 and "KeyboardInterrupt" in errors


def held(_):
    return len(children.HELD)


def test_a_worker_holds_nothing_back():
    assert parallel_map(held, [1, 2], 2, "x") == [0, 0]


def test_a_signal_waits_until_the_workers_have_begun(monkeypatch):
    class Pool:
        def map(self, work, chunks):
            os.kill(os.getpid(), signal.SIGTERM)
            begun.append(True)
            return map(work, chunks)

    @contextlib.contextmanager
    def executor(*_):
        yield Pool()

    begun = []
    monkeypatch.setattr(parallel, "executor", executor)
    before = signal.signal(signal.SIGTERM, children.interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            parallel_map(held, [1], 1, "x")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert begun
