"""The GPUs of a training, and the machine that its record names."""

import pytest
import torch

from espnet_srupp.recipe import stage, training
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options


@pytest.mark.parametrize(
    ("found", "asked", "used"), [(0, -1, 0), (2, -1, 1), (2, 2, 2), (2, 0, 0)]
)
def test_gpus(monkeypatch, found, asked, used):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: found)
    assert training.gpus(Options(ngpu=asked)) == used


@pytest.mark.parametrize(("asked", "used"), [(-1, 1), (4, 4), (0, 0)])
def test_gpus_of_other_machines_are_not_sought_here(monkeypatch, asked, used):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = Options(ngpu=asked, num_nodes=2, cuda_cmd="bin/slurm.pl --time 9")
    assert training.gpus(options) == used
    told = {-1: "2 x 1 GPU", 4: "2 x 4 GPUs", 0: "2 x the CPU"}[asked]
    assert training.machine(options, used) == f"{told} by slurm.pl"


def test_missing_gpu_is_named_with_the_remedy(monkeypatch):
    # one whose driver is too old is counted
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RecipeError, match="--ngpu 1.*--ngpu 0"):
        training.gpus(Options(ngpu=1))


def test_record_of_the_machine_does_not_count(tmp_path):
    record = {"options": {}, "inputs": {}}
    stage.write(tmp_path / "r", {**record, "machine": training.machine(Options(), 0)})
    assert "cores" in stage.read(tmp_path / "r")["machine"]
    assert not training.restarts(stage.read(tmp_path / "r"), record)
