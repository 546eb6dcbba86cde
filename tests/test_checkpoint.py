"""A checkpoint is the old one or the new one, however its writing ends."""

import errno
import io
import os
import resource
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
import torch

from espnet_srupp import checkpoint

ROOT = Path(__file__).parents[1]


@pytest.fixture
def save():
    return checkpoint.whole(torch.save)


def epoch(path):
    return torch.load(path, weights_only=True)["epoch"]


def state(number):
    return {"epoch": number, "model": torch.full((1000,), float(number))}


def test_a_file_is_replaced_and_nothing_else_is_left(save, tmp_path):
    for number in (1, 2):
        save(state(number), tmp_path / "checkpoint.pth")
        assert epoch(tmp_path / "checkpoint.pth") == number
    assert os.listdir(tmp_path) == ["checkpoint.pth"]


def test_paths_of_text_and_open_files_work(save, tmp_path):
    save(state(1), str(tmp_path / "a.pth"))
    with open(tmp_path / "b.pth", "wb") as file:
        save(state(2), file, _use_new_zipfile_serialization=True)
    assert epoch(tmp_path / "a.pth") == 1 and epoch(tmp_path / "b.pth") == 2


def test_what_a_link_points_to_is_replaced_and_not_the_link(save, tmp_path):
    link = tmp_path / "link.pth"
    link.symlink_to("there.pth")
    save(state(1), link)
    assert link.is_symlink() and epoch(tmp_path / "there.pth") == 1


def test_a_full_disk_leaves_the_old_file(save, tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pth"
    save(state(1), path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(state(2), path)
    assert epoch(path) == 1
    assert os.listdir(tmp_path) == ["checkpoint.pth"]


def test_a_file_that_cannot_grow_leaves_the_old_one(save, tmp_path):
    path = tmp_path / "checkpoint.pth"
    save(state(1), path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises((OSError, RuntimeError)):
            save(state(2), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert epoch(path) == 1
    assert os.listdir(tmp_path) == ["checkpoint.pth"]


def test_a_checkpoint_waits_for_the_model_of_its_epoch(save, tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pth"
    for number in (1, 2):
        save(state(number) | {"reporter": {}}, path)
        found = epoch(path) if path.exists() else 0
        assert found == number - 1
        save(state(number), tmp_path / f"{number}epoch.pth")
        assert epoch(path) == number
    save(state(3) | {"reporter": {}}, path)
    monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(state(3), tmp_path / "3epoch.pth")
    assert epoch(path) == 2
    assert not (tmp_path / "3epoch.pth").exists()


# what the process does last, and which epoch is found afterwards
KILLS = {
    "in the middle of writing": ("torch._C.PyTorchFileWriter.write_record", 1),
    "before it is on disk": ("os.fsync", 1),
    "before it takes its place": ("os.replace", 1),
    "before the next file is written": ("nothing", 2),
}
KILLED = """
import os, signal, sys, torch
from espnet_srupp import checkpoint
# as espnet_srupp.run does it
checkpoint.save_whole()
checkpoint.save_whole()
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
torch.save({"epoch": 1, "model": torch.ones(1000)}, "checkpoint.pth")
match sys.argv[1]:
    case "os.fsync": os.fsync = kill
    case "os.replace": os.replace = kill
    case "torch._C.PyTorchFileWriter.write_record":
        class Writer(torch._C.PyTorchFileWriter):
            def write_record(self, name, *rest):
                super().write_record(name, *rest)
                if name.endswith("data/0"):
                    kill()
        torch._C.PyTorchFileWriter = Writer
torch.save({"epoch": 2, "model": torch.ones(1000)}, "checkpoint.pth")
kill()
"""


@pytest.mark.parametrize("moment, found", KILLS.values(), ids=KILLS)
def test_a_kill_leaves_a_whole_checkpoint(tmp_path, moment, found):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED, moment]
    done = subprocess.run(command, cwd=tmp_path, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert epoch(tmp_path / "checkpoint.pth") == found


def test_a_checkpoint_that_cannot_be_written_leaves_none_waiting(
    save, tmp_path, monkeypatch
):
    path = tmp_path / "checkpoint.pth"
    save(state(1), path)
    save(state(2) | {"reporter": {}}, path)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(os, "fsync", lambda _: 1 / 0)
        save(state(3) | {"reporter": {}}, path)
    save(state(3), tmp_path / "3epoch.pth")
    assert epoch(path) == 1
    assert sorted(os.listdir(tmp_path)) == ["3epoch.pth", "checkpoint.pth"]


@pytest.mark.parametrize(
    "name, what", [("a.pth", {"reporter": {}}), ("checkpoint.pth", torch.ones(3))]
)
def test_what_is_no_checkpoint_of_a_training_does_not_wait(save, tmp_path, name, what):
    save(what, tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_any_file_but_a_checkpoint_that_waits_is_there_at_once(save, tmp_path):
    path = tmp_path / "checkpoint.pth"
    save(state(10) | {"reporter": {}}, path)
    save(state(10), tmp_path / "valid.acc.ave.pth")
    assert os.listdir(tmp_path).count("valid.acc.ave.pth") == 1 and not path.exists()
    for _ in range(2):
        # the second one has no checkpoint to release
        save(state(10), tmp_path / "10epoch.pth")
    assert epoch(path) == 10


def test_a_pipe_takes_what_is_saved_to_it(save, tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    save({"a": 1}, pipe)
    reader.join()
    assert pipe.is_fifo()
    assert torch.load(io.BytesIO(found[0])) == {"a": 1}


def test_all_of_a_file_is_on_disk_and_options_of_torch_save_count(
    save, tmp_path, monkeypatch
):
    path, sizes = tmp_path / "a.pth", []
    monkeypatch.setattr(os, "fsync", lambda f: sizes.append(os.fstat(f).st_size))
    save(state(1), path, _use_new_zipfile_serialization=False)
    assert not zipfile.is_zipfile(path)
    assert sizes == [path.stat().st_size]
