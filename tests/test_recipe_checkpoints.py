"""A training goes on from its last complete epoch, whatever was killed when."""

import zipfile

import pytest
import torch

from espnet_srupp.recipe import checkpoints


def write(exp, number):
    """Leaves what ESPnet leaves of an epoch."""
    torch.save({"epoch": number}, exp / "checkpoint.pth")
    (exp / "latest.pth").unlink(missing_ok=True)
    (exp / "latest.pth").symlink_to(f"{number}epoch.pth")


def epoch(exp):
    return torch.load(exp / "checkpoint.pth")["epoch"]


@pytest.fixture
def exp(tmp_path):
    write(tmp_path, 1)
    return tmp_path


def test_the_checkpoint_of_the_last_complete_epoch_is_gone_on_from(exp):
    checkpoints.save(exp)
    write(exp, 2)
    checkpoints.restore(exp)
    assert epoch(exp) == 1


def test_a_training_that_has_gone_on_without_us_is_not_set_back(exp):
    checkpoints.save(exp)
    write(exp, 3)
    checkpoints.restore(exp)
    assert epoch(exp) == 3


@pytest.mark.parametrize("number", [2, 3])
def test_checkpoint_that_is_being_written_is_not_kept(exp, number):
    checkpoints.save(exp)
    write(exp, number)
    whole = (exp / "checkpoint.pth").read_bytes()
    (exp / "checkpoint.pth").write_bytes(whole[: len(whole) // 2])
    assert not zipfile.is_zipfile(exp / "checkpoint.pth")
    checkpoints.save(exp)
    checkpoints.restore(exp)
    assert epoch(exp) == 1


def test_damaged_checkpoint_without_a_copy_is_told_and_removed(exp, capsys):
    (exp / "checkpoint.pth").write_bytes(b"PK")
    checkpoints.restore(exp)
    assert not (exp / "checkpoint.pth").exists()
    assert "damaged" in capsys.readouterr().out


def test_checkpoint_of_asr_sh_is_left_alone(exp):
    checkpoints.restore(exp)
    assert epoch(exp) == 1


def test_a_first_epoch_whose_model_was_not_written_is_trained_again(exp, capsys):
    (exp / "latest.pth").unlink()
    checkpoints.restore(exp)
    assert not (exp / "checkpoint.pth").exists()
    assert "the first epoch was not finished" in capsys.readouterr().out


@pytest.mark.parametrize("saved", [None, ""], ids=["older", "cut off"])
def test_a_copy_of_no_known_epoch_is_gone_on_from(exp, saved):
    checkpoints.save(exp)
    (exp / checkpoints.EPOCH).unlink()
    if saved is not None:
        (exp / checkpoints.EPOCH).write_text(saved)
    write(exp, 3)
    checkpoints.restore(exp)
    assert epoch(exp) == 1


def test_no_copy_stays_of_a_training_that_has_ended(exp):
    before = sorted(exp.iterdir())
    checkpoints.save(exp)
    checkpoints.remove(exp)
    assert sorted(exp.iterdir()) == before
