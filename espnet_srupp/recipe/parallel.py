"""One function over many jobs in several processes, here or by a Dask scheduler.

A job is a function of files: done twice it leaves the same, so that a Dask worker that
is lost costs nothing but time.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import Condition
from typing import TYPE_CHECKING

from espnet_srupp import children
from espnet_srupp.children import held_back
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.progress import Progress

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy import Cluster

LOCAL, SLURM = "local", "slurm"
CONNECT_SECONDS = 30
# an entry for each thread that needs the current folder to stay as it is
INSIDE: list[Path] = []
CHANGED = Condition()


def parallel_map(
    function: Callable,
    jobs: Sequence,
    nj: int,
    title: str,
    unit: str = "utt",
    scheduler: str = "",
) -> list:
    """Calls `function(job)` for each job in several processes.

    Args:
        function: of a module's top level, so that a process can find it.
        jobs: one argument each; they and the results travel between processes.
        nj: number of processes, at least 1.
        title: what the progress bar says.
        unit: what one job is.
        scheduler: as for `executor`.

    Returns:
        The results in the order of the jobs. The first error in that order is raised.

    Raises:
        RecipeError: a process was killed; the scheduler is not there.
    """
    if not jobs:
        return []
    workers = max(1, min(nj, len(jobs)))
    size = max(1, min(16, len(jobs) // (4 * workers)))
    chunks = [jobs[start : start + size] for start in range(0, len(jobs), size)]
    work = partial(in_folder, Path.cwd(), function)
    with executor(workers, title, scheduler) as pool:
        results = []
        with held_back():
            # the processes begin here
            done = pool.map(work, chunks)
        with Progress(title, len(jobs), unit) as progress:
            for chunk in done:
                results += chunk
                progress.update(len(results))
    return results


def in_folder(folder: Path, function: Callable, jobs: Sequence) -> list:
    """Does a few jobs where relative paths are those of the caller."""
    with current(folder):
        return [function(job) for job in jobs]


@contextmanager
def current(folder: Path) -> Iterator[None]:
    """Makes a folder the current one, which other threads that need another wait for.

    A Dask worker may have several threads, and several recipes may use it.
    """
    with CHANGED:
        CHANGED.wait_for(lambda: not INSIDE or Path.cwd() == folder)
        os.chdir(folder)
        INSIDE.append(folder)
    try:
        yield
    finally:
        with CHANGED:
            INSIDE.pop()
            CHANGED.notify_all()


@contextmanager
def executor(nj: int, title: str, scheduler: str) -> Iterator[Executor]:
    """Processes to work in, ended together with the block.

    Args:
        nj: number of processes; those of a running scheduler are as many as they are.
        title: what they are for, in errors.
        scheduler: "" for processes of this one; "local" for a Dask cluster on this
            machine; "slurm" for one of jobs, as ~/.config/dask/jobqueue.yaml says; or
            the address of a Dask scheduler, whose workers see the same files.

    Raises:
        RecipeError: a process was killed, with Dask several in a row; Dask is not
            installed, no scheduler answers, or no job can be submitted.
    """
    try:
        if scheduler:
            with dask_executor(nj, scheduler) as pool:
                yield pool
            return
        pool = ProcessPoolExecutor(nj, initializer=begin, initargs=(os.getpid(),))
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
    except BrokenProcessPool as error:
        raise RecipeError(
            f"a process was killed during '{title}', most likely for want of memory: "
            "run the same command again with a smaller number of processes (--nj)"
        ) from error


@contextmanager
def dask_executor(nj: int, scheduler: str) -> Iterator[Executor]:
    try:
        from distributed import KilledWorker

        cluster = start_cluster(nj, scheduler)
    except ModuleNotFoundError as error:
        raise RecipeError(
            f"--scheduler {scheduler} needs Dask: run pip install '.[dask]' "
            "in the checkout of espnet_srupp"
        ) from error
    with cluster or nullcontext(), connect(cluster, scheduler) as client:
        if scheduler == SLURM:
            submit(cluster, nj)
        # not pure: what was computed from files must not be taken for known
        pool = client.get_executor(pure=False)
        try:
            yield pool
        except CancelledError as error:
            raise RecipeError(
                f"--scheduler {scheduler}: the Dask scheduler has ended: start it and "
                "run the same command again"
            ) from error
        except KilledWorker as error:
            raise RecipeError(
                f"workers of --scheduler {scheduler} were killed at one job, one after "
                f"the other, most likely for want of memory ({error})"
            ) from error
        finally:
            pool.shutdown(wait=False)


def connect(cluster: "Cluster | None", scheduler: str) -> "Client":
    from distributed import Client

    try:
        return Client(cluster or scheduler, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({error})"
        ) from error


def start_cluster(nj: int, scheduler: str) -> "Cluster | None":
    """A Dask cluster, None where `scheduler` is an address; that of Slurm is empty.

    Without a dashboard it still serves its state, at any port: two would warn of one.
    """
    if scheduler == LOCAL:
        from distributed import LocalCluster

        # as in process.py, OMP_NUM_THREADS must not give each of them all processors
        alone = {"OMP_NUM_THREADS": "1"}
        return LocalCluster(
            n_workers=nj,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            env=alone,
        )
    if scheduler == SLURM:
        from dask_jobqueue import SLURMCluster

        if not shutil.which("sbatch"):
            raise RecipeError(
                f"--scheduler {SLURM}: there is no sbatch here: call run.sh where jobs "
                "are submitted"
            )
        try:
            return SLURMCluster(
                scheduler_options={"dashboard_address": ":0", "dashboard": False}
            )
        except ValueError as error:
            raise RecipeError(
                f"--scheduler {SLURM}: ~/.config/dask/jobqueue.yaml must say under "
                "jobqueue: slurm: how many cores and how much memory a job has"
            ) from error
    return None


def submit(cluster: "Cluster", nj: int) -> None:
    """Submits `nj` jobs to Slurm, unless it refuses one, which Dask would wait for."""
    tried = subprocess.run(
        ["sbatch", "--test-only"],
        input=cluster.job_script(),
        capture_output=True,
        text=True,
    )
    if tried.returncode:
        raise RecipeError(
            f"--scheduler {SLURM}: no job can be submitted "
            f"({' '.join(tried.stderr.split())}): correct ~/.config/dask/jobqueue.yaml"
        )
    # unlike scale(), this replaces a job whose time is up
    cluster.adapt(minimum_jobs=nj, maximum_jobs=nj)


def begin(parent: int) -> None:
    """Begins a process of the pool that `parent` has made."""
    # the parent alone answers Ctrl-C: a worker would only print its own traceback
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children.begin(parent)
