"""Two workers of a Dask cluster do the work, also when one is killed in the middle."""

import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from processes import gone, needs_proc

from espnet_srupp.recipe import parallel, process
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.parallel import parallel_map
from espnet_srupp.recipe.process import Job

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytest.importorskip("dask_jobqueue")

pytestmark = pytest.mark.once
NAMES = [f"job{n:02}" for n in range(24)]
SBATCH = """#!/bin/sh
[ "$1" = --test-only ] && exit 0
# reads a batch script when it is submitted, as Slurm does, and runs it at once
cp "$1" "$1.submitted"
setsid sh "$1.submitted" > "$1.log" 2>&1 < /dev/null &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
echo "$1" >> cancelled
kill -- "-$1"
"""
JOBQUEUE = {f"jobqueue.slurm.{k}": v for k, v in (("cores", 1), ("memory", "2GB"))}
PROGRAM = """
import os, sys, time
from pathlib import Path

name, output = sys.argv[1:]
Path("begun", f"{name}.{os.getppid()}").touch()
os.mkdir(output)
with open(f"{output}/text", "a") as file:
    for n in range(5):
        print(name, n, file=file, flush=True)
        time.sleep(0.1)
"""


@pytest.fixture
def scheduler():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A current folder that is not the workers' one."""
    monkeypatch.chdir(tmp_path)
    for name in ("begun", "out"):
        Path(name).mkdir()
    return tmp_path


@pytest.fixture
def kill(folder):
    """Kills the worker that begins the n-th job at once, or its whole group."""

    def killer(n, group):
        while len(begun := begun_jobs(folder)) < n:
            time.sleep(0.01)
        worker = int(begun[-1].suffix[1:])
        if group:
            os.killpg(os.getpgid(worker), signal.SIGKILL)
        else:
            os.kill(worker, signal.SIGKILL)

    threads = []

    def start(n, group=False):
        threads.append(threading.Thread(target=killer, args=[n, group], daemon=True))
        threads[0].start()

    yield start
    threads[0].join()


def begun_jobs(folder):
    """A file for each process that has begun a job, in the order of time."""
    return sorted((folder / "begun").iterdir(), key=lambda p: p.stat().st_mtime_ns)


def write(name):
    Path("begun", f"{name}.{os.getpid()}").touch()
    time.sleep(0.05)
    Path("out", name).write_text(name)
    return name


def refuse_odd(number):
    if number % 2:
        raise RecipeError(f"{number} is odd: take another")
    return os.getpid()


def test_nothing_is_lost_or_doubled_when_a_worker_is_killed(scheduler, folder, kill):
    kill(8)
    done = parallel_map(write, NAMES, 2, "work", scheduler=scheduler)
    assert done == NAMES
    assert {path.name: path.read_text() for path in Path("out").iterdir()} == {
        name: name for name in NAMES
    }
    # the killed one's jobs were begun again
    assert len(begun_jobs(folder)) > len(NAMES)


def test_a_program_is_run_again_when_its_worker_is_killed(scheduler, folder, kill):
    names = NAMES[:6]
    jobs = [
        Job(
            ["-c", PROGRAM, name, f"out/{name}"], Path(f"{name}.log"), Path("out", name)
        )
        for name in names
    ]
    kill(3)
    process.run(jobs, shlex.quote(sys.executable), scheduler=scheduler)
    for name in names:
        text = Path("out", name, "text").read_text()
        assert text == "".join(f"{name} {n}\n" for n in range(5))
    assert len(begun_jobs(folder)) > len(names)


def test_a_program_that_fails_is_told():
    job = Job(["-c", "raise ValueError('no')"], Path("log"), Path("out/x"))
    with pytest.raises(RecipeError, match="ValueError: no"):
        process.run([job], shlex.quote(sys.executable), scheduler=parallel.LOCAL)
    assert not Path("out/x").exists()


def test_programs_of_local_have_one_thread_whatever_the_user_has_set(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    program = (
        "import os, sys; os.mkdir(sys.argv[1]); print(os.environ['OMP_NUM_THREADS'])"
    )
    job = Job(["-c", program, "out/x"], Path("log"), Path("out/x"))
    process.run([job], shlex.quote(sys.executable), scheduler=parallel.LOCAL)
    assert Path("log").read_text().endswith("\n1\n")


def test_what_a_failed_run_left_on_a_worker_replaces_nothing(folder, monkeypatch):
    Path("out/x").mkdir()
    monkeypatch.chdir("/")
    job = Job(["-c", PROGRAM, "x", "out/x"], Path("log"), Path("out/x"))
    code, own = process.attempt(folder, shlex.quote(sys.executable), {}, Path(), job)
    # for its other threads, a worker's current folder stays
    assert os.getcwd() == "/"
    assert code == 0 and own.parent == Path("out") and (folder / own / "text").exists()
    assert os.listdir(folder / "out/x") == []


def test_local_is_a_cluster_of_as_many_processes_as_asked():
    ids = parallel_map(refuse_odd, range(0, 32, 2), 2, "work", scheduler=parallel.LOCAL)
    assert len(set(ids)) == 2 and os.getpid() not in ids
    with pytest.raises(RecipeError, match="^1 is odd: take another$"):
        parallel_map(refuse_odd, range(8), 1, "work", scheduler=parallel.LOCAL)


@pytest.fixture
def slurm(folder, monkeypatch):
    """Slurm's two commands, which run a job on this machine."""
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        Path(name).write_text(text)
        Path(name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_slurm_runs_the_work_in_as_many_jobs_as_asked(slurm):
    with dask.config.set(JOBQUEUE):
        done = parallel_map(write, NAMES, 2, "work", scheduler=parallel.SLURM)
    assert done == NAMES
    assert {path.name for path in Path("out").iterdir()} == set(NAMES)
    assert len(list(Path().glob("*.submitted"))) == 2
    # and not only when the program ends, hours later
    assert len(Path("cancelled").read_text().split()) == 2


def test_slurm_that_refuses_a_job_is_one_sentence(slurm):
    Path("sbatch").write_text("#!/bin/sh\necho 'sbatch: error: no account' >&2; exit 1")
    with dask.config.set(JOBQUEUE):
        with pytest.raises(RecipeError, match="submitted .sbatch: error: no account"):
            parallel_map(write, NAMES, 2, "work", scheduler=parallel.SLURM)


def test_a_job_of_slurm_that_ends_early_is_replaced(slurm, kill):
    kill(8, group=True)
    # Dask waits so long before it has another job for a lost one
    soon = {"distributed.deploy.lost-worker-timeout": "1s"}
    with dask.config.set(JOBQUEUE | soon):
        done = parallel_map(write, NAMES, 1, "work", scheduler=parallel.SLURM)
    assert done == NAMES
    assert len(list(Path().glob("*.submitted"))) == 2


def test_slurm_without_a_description_of_its_jobs_is_one_sentence(slurm):
    with pytest.raises(RecipeError, match="jobqueue.yaml must say .* how many cores"):
        parallel_map(write, NAMES, 2, "work", scheduler=parallel.SLURM)


def test_slurm_where_it_is_not_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RecipeError, match="there is no sbatch here"):
        parallel_map(write, NAMES, 2, "work", scheduler=parallel.SLURM)


def test_a_scheduler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(parallel, "CONNECT_SECONDS", 0.1)
    with pytest.raises(RecipeError, match="--scheduler tcp://127.0.0.1:9: no Dask"):
        parallel_map(write, NAMES, 2, "work", scheduler="tcp://127.0.0.1:9")


def test_an_address_that_is_none_is_named():
    with pytest.raises(RecipeError, match="--scheduler foo://x:1: no Dask"):
        parallel_map(write, NAMES, 2, "work", scheduler="foo://x:1")


def kill_self(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_job_at_which_workers_are_killed_is_told():
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        with pytest.raises(RecipeError, match="workers of --scheduler local were kill"):
            parallel_map(kill_self, [1], 1, "work", scheduler=parallel.LOCAL)


def test_a_scheduler_that_ends_meanwhile_is_named(folder):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:

        def end():
            while not begun_jobs(folder):
                time.sleep(0.01)
            cluster.close()

        ending = threading.Thread(target=end)
        ending.start()
        with pytest.raises(RecipeError, match="the Dask scheduler has ended"):
            parallel_map(
                write, NAMES * 9, 1, "work", scheduler=cluster.scheduler_address
            )
        ending.join()


def test_a_process_of_local_does_one_job_at_a_time():
    with parallel.start_cluster(1, parallel.LOCAL) as cluster:
        (worker,) = cluster.scheduler_info["workers"].values()
        assert worker["nthreads"] == 1


@pytest.mark.filterwarnings("error::UserWarning")
def test_two_clusters_do_not_warn_of_one_port():
    with parallel.start_cluster(1, parallel.LOCAL):
        with parallel.start_cluster(1, parallel.LOCAL):
            pass


@needs_proc
def test_workers_of_local_end_with_the_work():
    (worker,) = parallel_map(process_id, [0], 1, "work", scheduler=parallel.LOCAL)
    assert gone(worker)


def process_id(_):
    return os.getpid()
