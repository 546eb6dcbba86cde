"""ESPNET_SRUPP_DETERMINISTIC=1: two trainings with one seed give the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from data.tiny_training import words, write_data
from processes import unchecked
from torch._subclasses import FakeTensorMode

from espnet_srupp import determinism

ROOT = Path(__file__).parents[1]
GPU = pytest.mark.requires_cuda
TRAININGS = [("cpu", "true")] + [
    pytest.param("cuda", amp, marks=GPU) for amp in ("false", "true")
]
# for a CTC of so many frames torch's own backward pass on a GPU adds in any order
LONG = ["--frontend_conf", "hop_length=40", "--encoder_conf", "input_layer=linear"]


@pytest.fixture
def asked(monkeypatch):
    """A process whose environment asks for the same bits, until the test is over."""
    monkeypatch.setenv(determinism.ASKED, "1")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.nn.CTCLoss, "forward", torch.nn.CTCLoss.forward)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    determinism.repeat_bits()
    yield
    torch.use_deterministic_algorithms(False)


def train(folder, exp, device, amp):
    command = [sys.executable, "-m", "espnet_srupp.run", "-m", "espnet2.bin.asr_train"]
    command += [*words(folder, exp), *LONG, "--max_epoch", "2", "--use_amp", amp]
    command += ["--ngpu", str(int(device == "cuda"))]
    environment = unchecked() | {"OMP_NUM_THREADS": "2"}
    if device == "cuda":
        environment[determinism.ASKED] = "1"
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(exp / "2epoch.pth", map_location="cpu", weights_only=True)


@pytest.mark.once
@pytest.mark.parametrize(("device", "amp"), TRAININGS)
def test_two_trainings_with_one_seed_give_the_same_bits(tmp_path, device, amp):
    write_data(tmp_path)
    first, second = (train(tmp_path, tmp_path / exp, device, amp) for exp in "ab")
    assert first.keys() == second.keys()
    for name, parameter in first.items():
        assert torch.equal(parameter, second[name]), name


def test_ctc_is_computed_on_the_cpu(asked, monkeypatch):
    devices = []

    def stand_in(log_probs, *others):
        devices.extend(t.device.type for t in (log_probs, *others[:3]))
        return log_probs.sum((0, 2))

    monkeypatch.setattr(F, "ctc_loss", stand_in)
    with FakeTensorMode():
        log_probs = torch.empty(9, 2, 5, device="cuda", requires_grad=True)
        targets = torch.empty(2, 3, dtype=torch.int64, device="cuda")
        lengths = torch.empty(2, dtype=torch.int64, device="cuda")
        loss = torch.nn.CTCLoss(reduction="none")(
            log_probs, targets, lengths, target_lengths=lengths
        )
    assert devices == ["cpu"] * 4
    assert loss.device.type == "cuda" and loss.requires_grad


def test_loss_and_gradient_of_ctc_stay_the_same(asked):
    generator = torch.Generator().manual_seed(0)
    results = []
    for forward in (torch.nn.CTCLoss.forward, determinism.ctc_loss):
        log_probs = torch.randn(9, 2, 5, generator=generator.manual_seed(0))
        log_probs = log_probs.log_softmax(2).requires_grad_()
        lengths = torch.tensor([9, 7]), torch.tensor([3, 2])
        targets = torch.tensor([[1, 2, 3], [4, 1, 0]])
        loss = forward(torch.nn.CTCLoss(reduction="none"), log_probs, targets, *lengths)
        loss.sum().backward()
        results.append((loss, log_probs.grad))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("lengths", [list, tuple, torch.tensor])
def test_ctc_takes_what_torchs_takes(asked, lengths):
    # fewer frames than tokens, for which torch has a loss of zero if it is told so
    ctc = torch.nn.CTCLoss(reduction="sum", zero_infinity=True)
    log_probs, targets = torch.randn(2, 1, 5).log_softmax(2), torch.tensor([[1, 2, 3]])
    given = {"input_lengths": lengths([2]), "target_lengths": lengths([3])}
    found = ctc(log_probs, targets, **given)
    assert found.item() == 0


def test_it_is_on_where_it_is_asked_for(asked):
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.utils.deterministic.fill_uninitialized_memory
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_workspace_that_is_chosen_stays(asked, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    determinism.repeat_bits()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


@pytest.mark.parametrize("value", [None, "", "0"])
def test_it_is_off_where_it_is_not(monkeypatch, value):
    monkeypatch.delenv(determinism.ASKED, raising=False)
    if value is not None:
        monkeypatch.setenv(determinism.ASKED, value)
    determinism.repeat_bits()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.nn.CTCLoss.forward is determinism.ctc_loss


SPAWNS = """
import multiprocessing, sys, torch

def check():
    sys.exit(not torch.are_deterministic_algorithms_enabled())

def main():
    process = multiprocessing.get_context("spawn").Process(target=check)
    process.start()
    process.join()
    return process.exitcode
"""


@pytest.mark.once
@pytest.mark.parametrize("value", ["0", "1"])
def test_spawned_processes_do_as_their_parent(tmp_path, value):
    (tmp_path / "program.py").write_text(SPAWNS)
    command = [sys.executable, "-m", "espnet_srupp.run", "program.py"]
    environment = os.environ | {determinism.ASKED: value, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment)
    assert done.returncode == (value == "0")
