"""Files and directories appear whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_dir, atomic_file

FAULTS = [KeyboardInterrupt, RecipeError, ValueError]


def test_a_file_appears_with_its_content_only_after_the_block(tmp_path):
    path = tmp_path / "new" / "file"
    with atomic_file(path) as file:
        file.write("é\n")
        assert not path.exists()
    assert path.read_bytes() == "é\n".encode()
    assert os.listdir(path.parent) == ["file"]


def test_a_file_of_bytes_replaces_an_old_one(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_file(path, "wb") as file:
        file.write(b"\xff")
    assert path.read_bytes() == b"\xff"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_old_file_and_no_other(tmp_path, fault):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(fault), atomic_file(path) as file:
        file.write("half")
        raise fault
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_appears_only_after_the_block_and_replaces_an_old_one(tmp_path):
    target = tmp_path / "set"
    target.mkdir()
    (target / "old").touch()
    with atomic_dir(target) as directory:
        (directory / "new").touch()
        assert os.listdir(target) == ["old"]
    assert os.listdir(target) == ["new"]
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_the_old_directory_and_no_other(tmp_path, fault):
    target = tmp_path / "set"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(fault), atomic_dir(target) as directory:
        (directory / "half").touch()
        raise fault
    assert os.listdir(target) == ["old"]
    assert os.listdir(tmp_path) == ["set"]


def test_a_link_to_a_directory_stays_and_what_it_points_to_is_replaced(tmp_path):
    link, real = tmp_path / "link", tmp_path / "disk" / "real"
    real.mkdir(parents=True)
    link.symlink_to(real)
    for content in ("one", "two"):
        with atomic_dir(link) as directory:
            (directory / "file").write_text(content)
        assert link.is_symlink() and (real / "file").read_text() == content
    assert [path.name for path in real.parent.iterdir()] == ["real"]
    assert {path.name for path in tmp_path.iterdir()} == {"link", "disk"}


def test_the_current_folder_may_be_replaced(tmp_path, monkeypatch):
    (tmp_path / "set").mkdir()
    monkeypatch.chdir(tmp_path / "set")
    with atomic_dir(Path()) as directory:
        (directory / "new").touch()
    assert os.listdir(tmp_path) == ["set"]
    assert os.listdir(tmp_path / "set") == ["new"]


@pytest.mark.parametrize("left", [[".set.partial"], [".set.old", "set"]])
def test_what_a_killed_run_left_is_cleared(tmp_path, left):
    for name in left:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    with atomic_dir(tmp_path / "set") as directory:
        (directory / "new").touch()
    assert os.listdir(tmp_path) == ["set"]
    assert os.listdir(tmp_path / "set") == ["new"]


def test_an_old_directory_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path, monkeypatch
):
    target = tmp_path / "set"
    target.mkdir()
    (target / "old").touch()
    replace = os.replace

    def refuse(source, destination):
        if Path(source).name == ".set.partial":
            raise PermissionError("refused")
        replace(source, destination)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError), atomic_dir(target):
        pass
    assert os.listdir(target) == ["old"]
    assert os.listdir(tmp_path) == ["set"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no /dev/full")
@pytest.mark.parametrize("atomic", [atomic_file, atomic_dir])
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, atomic):
    target = tmp_path / "target"
    with pytest.raises(RecipeError, match="no space left on the file system /.*target"):
        with atomic(target), open("/dev/full", "w") as full:
            full.write("something")
    assert os.listdir(tmp_path) == []


def noted(monkeypatch, *names):
    """What is called of `os`, in order, with the name of a path."""
    calls = []

    def note(name, call):
        def noting(*words):
            own = isinstance(words[:1] and words[0], Path)
            calls.append((name, words[0].name) if own else (name,))
            return call(*words)

        return noting

    for name in names:
        monkeypatch.setattr(os, name, note(name, getattr(os, name)))
    return calls


def test_a_file_is_on_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    written, fsync = [], os.fsync

    def note_size(file):
        written.append(os.fstat(file).st_size)
        fsync(file)

    monkeypatch.setattr(os, "fsync", note_size)
    calls = noted(monkeypatch, "fsync", "replace")
    with atomic_file(tmp_path / "file") as file:
        file.write("new")
    assert calls == [("fsync",), ("replace", ".file.partial")]
    # all of it, and not what Python has passed on by then
    assert written == [3]


def test_a_directory_is_on_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    (tmp_path / "set").mkdir()
    calls = noted(monkeypatch, "sync", "replace")
    with atomic_dir(tmp_path / "set"):
        pass
    assert calls == [("sync",), ("replace", "set"), ("replace", ".set.partial")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_quota_is_a_full_disk_and_other_faults_are_not(tmp_path, number):
    kind = OSError if number == errno.EIO else RecipeError
    with pytest.raises(kind, match=os.strerror(errno.EIO) if kind is OSError else "no"):
        with atomic_file(tmp_path / "file"):
            raise OSError(number, os.strerror(number))
