"""Steps of several run.sh at once wait for each other where they must, else not."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import needs_proc

from espnet_srupp.recipe import locks, stage, training
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.stage import Step

# a run.sh of another process, which makes or reads `data` until there is `end`
OTHER = """
import sys, time
from pathlib import Path
from espnet_srupp.recipe import locks, stage
def work():
    Path("begun").touch()
    while not Path("end").exists():
        time.sleep(0.01)
    Path(target).write_text("made")
target, *reads = map(Path, sys.argv[1:])
with locks.Locks() as mine:
    stage.run(stage.Step(5, "x", work, [target], reads=reads), mine)
"""


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Starts one, and lets it end once this process has told that it waits."""
    monkeypatch.chdir(tmp_path)
    told, started = [], []

    def say(message):
        told.append(message)
        if "waiting" in message:
            Path("end").touch()

    def start(*words):
        # as a job of a cluster may have a TMPDIR of its own
        root = str(Path(stage.__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": root, "TMPDIR": str(tmp_path / "x")}
        command = [sys.executable, "-c", OTHER, *words]
        started.append(subprocess.Popen(command, env=environment))
        while not Path("begun").exists():
            assert started[0].poll() is None
            time.sleep(0.01)
        return told

    monkeypatch.setattr(stage, "say", say)
    monkeypatch.setattr(training, "say", say)
    yield start
    Path("end").touch()
    assert started[0].wait() == 0


def make(target, reads=(), mine=None, **options):
    """A step of this process; returns whether it did something."""

    def work():
        Path(target).write_text("made here")

    paths = [Path(path) for path in reads]
    step = Step(5, "x", work, [Path(target)], options=options, reads=paths)
    with locks.Locks() as passing:
        return stage.run(step, mine or passing)


def test_a_step_at_work_elsewhere_is_waited_for_and_not_done_twice(other):
    told = other("data")
    assert not make("data")
    assert Path("data").read_text() == "made"
    assert "another run.sh is doing this" in told[0] and "done before" in told[1]


def test_what_another_one_reads_is_not_replaced_meanwhile(other):
    make("data")
    told = other("model", "data")
    assert make("data", ["audio"], other="option")
    assert "another run.sh is reading what this replaces" in told[1]
    assert Path("model").exists()


def test_what_another_one_makes_is_not_read_meanwhile(other):
    told = other("data")
    assert make("model", ["data"])
    assert "another run.sh is making what this reads" in told[0]
    assert Path("data").read_text() == "made"


def test_a_training_that_another_one_decodes_with_is_not_put_aside_meanwhile(other):
    Path("exp").mkdir()
    told = other("text", f"exp/{training.BEGUN}")
    assert training.put_aside(Path("exp")) == Path("exp.1")
    assert "another run.sh is reading what this replaces" in told[0]
    assert Path("text").exists()


def test_what_is_finished_and_read_elsewhere_is_not_waited_for(other):
    make("data")
    told = other("model", "data")
    assert not make("data")
    assert make("another model", ["data"])
    assert "waiting" not in "".join(told) and not Path("model").exists()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_what_is_finished_needs_no_folder_that_can_be_written(
    tmp_path, monkeypatch, number
):
    monkeypatch.chdir(tmp_path)
    make("data")

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks, "opened", refuse)
    assert not make("data")
    with pytest.raises(OSError, match=os.strerror(number)):
        make("data", other="option")


def refuse_locks(monkeypatch, number):
    def lockf(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks.fcntl, "lockf", lockf)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    refuse_locks(monkeypatch, number)
    assert make("data")
    refuse_locks(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        make("other")


def test_another_error_than_of_two_that_wait_for_each_other_is_told(
    tmp_path, monkeypatch
):
    def lockf(_, kind):
        waits = not kind & locks.fcntl.LOCK_NB
        raise OSError(errno.EIO, "broken") if waits else BlockingIOError

    monkeypatch.setattr(locks.fcntl, "lockf", lockf)
    with pytest.raises(OSError, match="broken"):
        with locks.alone(tmp_path / "x", "downloading"):
            pass


def test_what_is_read_may_lie_where_nothing_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened, theirs = locks.opened, locks.lock_file(stage.marker(Path("data")), [])

    def refuse(lock):
        if lock == theirs:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(lock)

    monkeypatch.setattr(locks, "opened", refuse)
    assert make("model", ["data"])
    with pytest.raises(PermissionError):
        make("data")


ALONE = """
import fcntl, sys
fcntl.lockf(open(sys.argv[1], "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def test_who_waits_to_replace_something_keeps_no_other_one_from_it(other):
    lock = locks.lock_file(stage.marker(Path("data").absolute()), [])
    make("data")
    other("model", "data")

    def tell(_):
        Path("end").touch()
        while not Path("model").exists():
            time.sleep(0.01)
        # now that nobody reads it, it is free
        subprocess.run([sys.executable, "-c", ALONE, str(lock)], check=True)

    with locks.opened(lock) as file:
        locks.acquire(file, True, "doing this", tell)


SHARED = """
import fcntl, sys
fcntl.lockf(open(sys.argv[1]), fcntl.LOCK_SH | fcntl.LOCK_NB)
"""


def is_free(name, how=ALONE):
    """Whether another process could replace that now."""
    lock = locks.lock_file(stage.marker(Path(name)), [])
    return subprocess.run([sys.executable, "-c", how, lock]).returncode == 0


def test_what_a_run_has_made_and_read_stays_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locks.Locks() as mine:
        make("data", ["audio"], mine)
        assert not is_free("data") and not is_free("audio")
        # neither another step that reads it lets it go, nor one that makes it anew
        make("model", ["data"], mine)
        make("data", mine=mine, other="option")
        make("data", mine=mine, other="option")
        assert not is_free("data") and not is_free("model")
    assert is_free("data") and is_free("audio") and is_free("model")


def test_all_that_a_step_reads_is_held(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locks.Locks() as mine:
        make("model", ["stats", "train", "valid"], mine)
        assert not any(map(is_free, ("model", "stats", "train", "valid")))


def test_what_a_run_has_made_may_be_read_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locks.Locks() as mine:
        make("data", mine=mine)
        assert is_free("data", SHARED) and not is_free("data")


def test_scores_are_made_again_by_any_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locks.Locks() as mine:
        make("data", mine=mine)
        reads = [Path("data")]
        scoring = Step(stage.SCORING, "x", Path("md").touch, [Path("md")], reads=reads)
        stage.run(scoring, mine)
        assert is_free("md") and not is_free("data")


def waits(pid):
    """Whether a process comes to wait for a lock, by what Linux tells of them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = [row.split() for row in Path("/proc/locks").read_text().splitlines()]
        if any(row[1] == "->" and str(pid) in row for row in rows):
            return True
        time.sleep(0.01)
    return False


# makes `b`, and then `a`, which another run.sh has made
CROSSING = """
from pathlib import Path
from espnet_srupp.recipe import locks, stage
with locks.Locks() as mine:
    for name in "ba":
        step = stage.Step(5, name, Path(name).touch, [Path(name)], options={"x": 1})
        stage.run(step, mine)
"""


@needs_proc
def test_of_two_that_wait_for_each_other_one_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with locks.Locks() as mine:
        make("a", mine=mine)
        environment = {**os.environ, "PYTHONPATH": str(Path(stage.__file__).parents[2])}
        command = [sys.executable, "-c", CROSSING]
        crossing = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        while b"waiting" not in crossing.stdout.readline():
            assert crossing.poll() is None
        # it has told that it will wait, not yet that it does
        assert waits(crossing.pid)
        with pytest.raises(RecipeError, match="waits for what this one has read"):
            make("b", mine=mine)
    assert crossing.wait() == 0


def test_what_is_done_by_one_at_a_time_has_been_done_when_the_other_comes(
    tmp_path, monkeypatch
):
    told = []
    lock = tmp_path / "x"
    code = (
        "import sys, time; from pathlib import Path;"
        "from espnet_srupp.recipe.locks import alone\n"
        "with alone(Path(sys.argv[1]), 'downloading'):\n"
        "    print(flush=True)\n"
        "    while not Path(sys.argv[1] + 'told').exists(): time.sleep(0.01)\n"
        "    Path(sys.argv[1] + 'done').touch()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(stage.__file__).parents[2])}
    command = [sys.executable, "-c", code, str(lock)]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    first.stdout.readline()

    def tell(message):
        told.append(message)
        (tmp_path / "xtold").touch()

    monkeypatch.setattr(locks, "say", tell)
    with locks.alone(lock, "downloading"):
        assert (tmp_path / "xdone").exists()
    assert told == ["another run.sh is downloading x, waiting for it"]
    assert first.wait() == 0


# has `data` made by a run.sh of its own, which goes on reading it
BOTH = """
import sys, time
from pathlib import Path
from espnet_srupp.recipe import locks, stage
marker = stage.marker(Path("data"))
with locks.Locks().held(marker, [], print, alone=False):
    print(flush=True)
    while not Path("told").exists():
        time.sleep(0.01)
    Path("data").touch()
    stage.write(marker, {"options": {}, "inputs": {}})
    while not Path("end").exists():
        time.sleep(0.01)
"""


def test_what_another_one_has_made_and_reads_is_waited_for_no_longer(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def say(message):
        if "waiting" in message:
            Path("told").touch()

    monkeypatch.setattr(stage, "say", say)
    environment = {**os.environ, "PYTHONPATH": str(Path(stage.__file__).parents[2])}
    command = [sys.executable, "-c", BOTH]
    both = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    both.stdout.readline()
    assert not make("data")
    assert both.poll() is None
    Path("end").touch()
    assert both.wait() == 0
