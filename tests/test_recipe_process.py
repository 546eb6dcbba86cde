"""Programs run side by side, are ended with all they started, and failures are told."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import gone, needs_proc

from espnet_srupp import children, names
from espnet_srupp.recipe import process
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import cores
from espnet_srupp.recipe.process import Job, run

PYTHON = shlex.quote(sys.executable)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(process, "POLL_SECONDS", 0.01)


def job(tmp_path, program, name="log"):
    return Job(["-c", program], tmp_path / "logs" / name)


def test_log_holds_command_output_and_errors(tmp_path):
    program = "import sys; print('out'); print('err', file=sys.stderr)"
    run([job(tmp_path, program, "new/log")], PYTHON)
    command, out, err = (tmp_path / "logs" / "new" / "log").read_text().splitlines()
    assert command.startswith("## ")
    assert shlex.split(command[3:]) == [sys.executable, "-c", program]
    assert (out, err) == ("out", "err")


def test_a_program_begins_once_its_log_has_the_command_and_signals_wait(
    tmp_path, monkeypatch
):
    def popen(*args, **kwargs):
        text = (tmp_path / "logs" / "log").read_text()
        begun.append((text[:3], len(children.HELD)))
        return real(*args, **kwargs)

    begun, real = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", popen)
    run([job(tmp_path, "")], PYTHON)
    assert begun == [("## ", 1)]


@pytest.mark.parametrize("append", [True, False])
def test_log_is_continued_on_request(tmp_path, append):
    for word in ("one", "two"):
        run([job(tmp_path, f"print('{word}')")], PYTHON, append=append)
    log = (tmp_path / "logs" / "log").read_text()
    assert "two" in log
    assert ("one\n" in log) == append


def test_programs_run_side_by_side(tmp_path):
    # each waits for the file that the other makes
    wait = "import pathlib, time\npathlib.Path({0!r}).touch()\n"
    wait += "while not pathlib.Path({1!r}).exists(): time.sleep(0.01)"
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    jobs = [
        job(tmp_path, wait.format(a, b), "1"),
        job(tmp_path, wait.format(b, a), "2"),
    ]
    run(jobs, PYTHON)


@pytest.mark.parametrize(
    "given, shown",
    [(None, ["0", "1", ""]), ("4,7", ["4", "7", "4,7"]), ("GPU-a,GPU-b", None)],
)
def test_a_program_sees_the_gpu_that_it_is_given(tmp_path, monkeypatch, given, shown):
    name = "CUDA_VISIBLE_DEVICES"
    if given is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, given)
    program = f"import os; print(os.environ.get('{name}', ''))"
    jobs = [
        Job(["-c", program], tmp_path / f"{n}", gpu=gpu)
        for n, gpu in enumerate([0, 1, None])
    ]
    run(jobs, PYTHON)
    seen = [job.log.read_text().split("\n")[1] for job in jobs]
    assert seen == (shown or ["GPU-a", "GPU-b", given])


THREADS = "import os; print(os.environ['OMP_NUM_THREADS'])"


# what the user has set, and the threads of each of three programs
@pytest.mark.parametrize(
    ("given", "processors", "threads"),
    [("", 6, 2), ("1", 6, 1), ("2", 6, 2), ("6", 6, 2), ("6,2", 6, 2), ("", 2, 1)],
)
def test_processors_are_shared_out(tmp_path, monkeypatch, given, processors, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr(process, "cores", lambda: processors)
    run([job(tmp_path, THREADS, str(n)) for n in range(3)], PYTHON)
    assert (tmp_path / "logs" / "2").read_text().endswith(f"\n{threads}\n")


def test_processes_that_a_program_starts_share_its_processors(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(process, "cores", lambda: 6)
    run([job(tmp_path, THREADS)], PYTHON, shares=2)
    assert (tmp_path / "logs" / "log").read_text().endswith("\n3\n")


def test_a_program_alone_has_the_threads_that_the_user_has_set(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    run([job(tmp_path, THREADS)], PYTHON)
    assert (tmp_path / "logs" / "log").read_text().endswith("\n7\n")


def test_watch_is_called_at_least_once_after_the_end(tmp_path, monkeypatch):
    def running(children, jobs):
        return any(child.wait() for child in children)

    log, seen = tmp_path / "logs" / "log", []
    monkeypatch.setattr(process, "running", running)
    run([job(tmp_path, "print('end')")], PYTHON, lambda: seen.append(log.read_text()))
    assert seen[-1].endswith("\nend\n")


SLEEPER = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({0!r}).with_suffix(".part").write_text(str(child.pid))
pathlib.Path({0!r}).with_suffix(".part").rename({0!r})
time.sleep(600)
"""


@needs_proc
@pytest.mark.parametrize("how", ["interrupt", "another failed"])
def test_everything_is_ended(tmp_path, how):
    started = tmp_path / "started"
    jobs = [job(tmp_path, SLEEPER.format(str(started)), "1")]
    if how == "another failed":
        wait = f"import os, time\nwhile not os.path.exists({str(started)!r}): "
        jobs.append(job(tmp_path, wait + "time.sleep(0.01)\nraise SystemExit(3)", "2"))

    def watch():
        if how == "interrupt" and started.exists():
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, RecipeError)):
        run(jobs, PYTHON, watch)
    assert gone(int(started.read_text()))


ORPHAN = """
import sys
from pathlib import Path
from espnet_srupp.recipe import process
program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
process.run([process.Job(["-c", program], Path("log"))], sys.executable)
"""


@needs_proc
def test_a_killed_parent_leaves_no_orphan(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(process.__file__).parents[2])}
    command = [sys.executable, "-c", ORPHAN]
    parent = subprocess.Popen(command, cwd=tmp_path, env=environment)
    log = tmp_path / "log"
    deadline = time.monotonic() + 60
    while not log.exists() or log.read_text().count("\n") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int(log.read_text().split("\n")[1])
    os.kill(child, 0)
    parent.kill()
    parent.wait()
    assert gone(child)


# its child ignores SIGTERM, as it does itself unless told otherwise
LEADER = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
{before}
pathlib.Path(sys.argv[1] + ".part").write_text(str(child.pid))
pathlib.Path(sys.argv[1] + ".part").rename(sys.argv[1])
{after}
"""
END = "signal.signal(signal.SIGTERM, signal.SIG_DFL)"


@needs_proc
@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        pytest.param("", "time.sleep(600)", KeyboardInterrupt, id="killed"),
        pytest.param(END, "time.sleep(600)", KeyboardInterrupt, id="ended"),
        pytest.param("", "1/0", RecipeError, id="failed"),
    ],
)
def test_what_a_program_has_started_ends_with_it(
    tmp_path, monkeypatch, before, after, error
):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.5)
    started = tmp_path / "started"

    def watch():
        if started.exists() and error is KeyboardInterrupt:
            raise error

    words = ["-c", LEADER.format(before=before, after=after), str(started)]
    with pytest.raises(error):
        run([Job(words, tmp_path / "log")], PYTHON, watch)
    assert gone(int(started.read_text()))


def test_programs_are_asked_to_end_before_they_are_killed(monkeypatch):
    class Child:
        def __init__(self, code=None):
            self.code = code

        def poll(self):
            return self.code

        def wait(self, timeout=None):
            if timeout is None:
                events.append("reaped")
            else:
                clock[0] += timeout
                raise subprocess.TimeoutExpired("x", timeout)

    events, clock = [], [0]
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(process, "send", lambda _, number: events.append(number))
    process.end([Child(), Child(0), Child(), Child(1)])
    assert events == [signal.SIGTERM] * 3 + [signal.SIGKILL, "reaped"] * 3
    # all of them together
    assert clock == [process.GRACE_SECONDS]


def test_a_signal_that_came_to_a_child_before_its_program_ends_it(monkeypatch):
    monkeypatch.setattr(children, "end_with", lambda parent: None)
    monkeypatch.setattr(children, "HELD", [[os.getpid()]])
    with pytest.raises(KeyboardInterrupt):
        children.begin(os.getppid())


def test_command_that_does_not_start_is_named(tmp_path):
    with pytest.raises(RecipeError, match="--python /no/such.*cannot start"):
        run([job(tmp_path, "")], "/no/such -m x")


def test_failure_names_the_last_error_and_the_log(tmp_path):
    with pytest.raises(RecipeError, match=r"ValueError: odd number \(log: .*log\)"):
        run([job(tmp_path, "raise ValueError('odd number')")], PYTHON)


def test_the_error_of_an_earlier_run_in_the_same_log_is_not_told(tmp_path):
    first = job(tmp_path, "raise ValueError('CUDA out of memory')")
    with pytest.raises(RecipeError, match="out of memory"):
        run([first], PYTHON)
    second = job(tmp_path, "raise SystemExit(3)")
    with pytest.raises(RecipeError, match="^exit code 3 "):
        run([second], PYTHON, append=True)


def test_no_more_processors_are_used_than_this_process_may(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert cores() == 2
    # as on macOS
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 64


def test_a_program_draws_without_a_display_and_prints_at_once(tmp_path, monkeypatch):
    """And it takes no option whose name is cut short."""
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.delenv(names.ASKED, raising=False)
    words = ("MPLBACKEND", "PYTHONUNBUFFERED", names.ASKED)
    run([job(tmp_path, f"import os; print(*map(os.environ.get, {words}))")], PYTHON)
    assert (tmp_path / "logs" / "log").read_text().endswith("\nAgg 1 1\n")


READING = """
import sys
from pathlib import Path
from espnet_srupp.recipe import process
words = ["-c", "import sys; print(len(sys.stdin.read()))"]
process.run([process.Job(words, Path("log"))], sys.executable)
print(sys.stdin.read())
"""


def test_a_program_reads_nothing_of_the_user_s_input(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(process.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", READING],
        **{"cwd": tmp_path, "env": environment, "input": "the next line"},
        **{"capture_output": True, "text": True, "check": True},
    )
    assert done.stdout == "the next line\n"
    assert (tmp_path / "log").read_text().endswith("\n0\n")


def test_a_line_that_a_full_disk_cut_off_does_not_hide_where_a_run_begins(tmp_path):
    (tmp_path / "log").write_text("## python3\nOSError: No space left\nhalf a li")
    with pytest.raises(RecipeError, match="^exit code 3 "):
        run([Job(["-c", "raise SystemExit(3)"], tmp_path / "log")], PYTHON, append=True)
