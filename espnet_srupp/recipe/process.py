"""Runs ESPnet's programs as child processes and says in one sentence why one failed."""

import os
import shlex
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from espnet_srupp import names
from espnet_srupp.children import begin, held_back
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.explain import BEGINS, explain
from espnet_srupp.recipe.options import cores
from espnet_srupp.recipe.parallel import SLURM, executor

POLL_SECONDS = 0.3
# time that a child gets between being asked to end and being killed
GRACE_SECONDS = 5


@dataclass(frozen=True)
class Job:
    """A program with its arguments, and the file that takes what it prints.

    Attributes:
        output: the folder that it writes, one of its arguments; by a scheduler it
            appears once the program has ended well.
        gpu: the only one of this process's GPUs that it sees; None: all of them. A
            scheduler's workers have GPUs of their own.
    """

    arguments: Sequence[str]
    log: Path
    output: Path | None = None
    gpu: int | None = None


def run(
    jobs: Sequence[Job],
    python: str,
    watch: Callable[[], None] = lambda: None,
    append: bool = False,
    scheduler: str = "",
    shares: int = 1,
) -> None:
    """Runs programs side by side until all have ended.

    Args:
        jobs: what to run; the processors are shared out evenly among them.
        python: the command in front of the arguments, as --python gives it.
        watch: called a few times a second, to show how far they are.
        append: keep what a log already holds; not by a scheduler.
        scheduler: of Dask, whose workers run the programs then, see `parallel`.
        shares: processes that each program starts, as a training does for its GPUs.

    Raises:
        RecipeError: a program cannot start or failed; the others are ended then. They
            are ended as well when the user interrupts.
    """
    if scheduler:
        return run_by(scheduler, jobs, python, watch)
    environment = surroundings(max(1, cores() // (len(jobs) * shares)), len(jobs) > 1)
    children: list[subprocess.Popen] = []
    try:
        for job in jobs:
            own = environment | visible(job.gpu)
            children.append(start(job, python, own, append))
        while running(children, jobs):
            watch()
            time.sleep(POLL_SECONDS)
        watch()
    finally:
        end(children)


def run_by(
    scheduler: str, jobs: Sequence[Job], python: str, watch: Callable[[], None]
) -> None:
    workers = len(jobs) if scheduler == SLURM else min(len(jobs), cores())
    with executor(workers, "the work of ESPnet", scheduler) as pool:
        # of the workers of an address, which live on, it ends the programs
        wanted = jobs[0].log.with_name(f".wanted.{uuid.uuid4().hex}")
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.touch()
        work = partial(attempt, Path.cwd(), python, surroundings(1, False), wanted)
        try:
            pending = {pool.submit(work, job): job for job in jobs}
            while pending:
                watch()
                done, _ = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    job, (code, own) = pending.pop(future), future.result()
                    if code:
                        raise RecipeError(explain(job.log, code))
                    shutil.rmtree(job.output, ignore_errors=True)
                    own.rename(job.output)
        finally:
            wanted.unlink(missing_ok=True)
        watch()


def attempt(
    folder: Path, python: str, environment: dict, wanted: Path, job: Job
) -> tuple[int, Path]:
    """Runs a program on a worker; returns its exit code and the folder that it wrote.

    It ends with the file `wanted`, which is there as long as the caller waits.

    If that worker is lost, another one runs the program as well. So each writes to a
    folder of its own, of which the caller, if it still waits, makes the output: what a
    failed run has left on a worker must not replace the results of a later one.
    """
    own = job.output.with_name(f".{job.output.name}.{uuid.uuid4().hex}")
    words = [str(own) if word == str(job.output) else word for word in job.arguments]
    (folder / job.log).unlink(missing_ok=True)
    # what the worker's own machine sets, such as its GPUs, counts
    surrounded = environment | os.environ
    child = start(Job(words, job.log), python, surrounded, append=False, folder=folder)
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(POLL_SECONDS), own
        if not (folder / wanted).exists():
            end([child])
            shutil.rmtree(folder / own, ignore_errors=True)


def start(
    job: Job, python: str, environment: dict, append: bool, folder: Path = Path()
) -> subprocess.Popen:
    """Starts a program in `folder`, which its paths are relative to.

    A thread may do that, as the folder of this process stays as it is.
    """
    command = [*shlex.split(python), *map(str, job.arguments)]
    path = folder / job.log
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab" if append else "wb") as log:
        # a full disk may have cut off the last line
        ended = "\n" if log.tell() else ""
        log.write(f"{ended}{BEGINS}{shlex.join(command)}\n".encode())
        log.flush()
        try:
            # a session of its own: Ctrl-C reaches this process only, which then ends
            # the child together with all that it has started
            with held_back():
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=folder,
                    start_new_session=True,
                    preexec_fn=partial(begin, os.getpid()),
                )
        except OSError as error:
            raise RecipeError(
                f"--python {python}: cannot start {command[0]} ({error.strerror})"
            ) from error


def visible(gpu: int | None) -> dict[str, str]:
    """The setting by which CUDA shows one GPU of those that this process sees."""
    if gpu is None:
        return {}
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return {"CUDA_VISIBLE_DEVICES": shown.split(",")[gpu] if shown else f"{gpu}"}


def surroundings(threads: int, beside: bool) -> dict[str, str]:
    """The environment of a child that uses so many threads.

    OMP_NUM_THREADS may say otherwise; of a child beside others it can only take threads
    away: where more threads than processors wait for each other, each small step of a
    search takes milliseconds.
    """
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONUNBUFFERED": "1"}
    # a training goes on, and a card is written, by what the options are called
    environment[names.ASKED] = "1"
    given = environment.setdefault("OMP_NUM_THREADS", str(threads))
    if beside:
        most = int(given) if given.isdecimal() else threads
        environment["OMP_NUM_THREADS"] = str(min(threads, most))
    return environment


def running(children: Sequence[subprocess.Popen], jobs: Sequence[Job]) -> bool:
    codes = [child.poll() for child in children]
    for job, code in zip(jobs, codes, strict=True):
        if code:
            raise RecipeError(explain(job.log, code))
    return None in codes


def end(children: Sequence[subprocess.Popen]) -> None:
    """Ends what still runs or has failed, with everything it has started."""
    unfinished = [child for child in children if child.poll() != 0]
    for child in unfinished:
        send(child, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    for child in unfinished:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(0, deadline - time.monotonic()))
    for child in unfinished:
        send(child, signal.SIGKILL)
        child.wait()


def send(child: subprocess.Popen, number: signal.Signals) -> None:
    """Sends a signal to a child and all that it has started, if any of it is left."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, number)


class Tail:
    """Follows a log that is being written, past what it holds at first."""

    def __init__(self, path: Path):
        self.path = path
        found = path.stat() if path.exists() else None
        self.file, self.offset = (found.st_ino, found.st_size) if found else (None, 0)

    def lines(self) -> list[str]:
        """The whole lines that have come since the last look, also of a new file."""
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            # not yet, or a launcher is putting it aside
            return []
        with file:
            found = os.fstat(file.fileno())
            # a new file may have the number of the one that was removed before
            if found.st_ino != self.file or found.st_size < self.offset:
                self.file, self.offset = found.st_ino, 0
            file.seek(self.offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode("utf-8", "replace").splitlines()
