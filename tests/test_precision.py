"""`use_amp: true` on a CPU: bfloat16, and no step whose gradients are not finite."""

import logging
import sys
from dataclasses import fields
from importlib import import_module
from types import ModuleType

import pytest
import torch
from torch import nn

from espnet_srupp import precision

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="ESPnet itself mixes where there is a GPU"
)


@pytest.fixture
def trainer(monkeypatch):
    """ESPnet's trainer, as `espnet_srupp.run` leaves it."""
    module = import_module("espnet2.train.trainer")
    import_module("espnet2.asr.espnet_model")
    monkeypatch.setattr(module, "GradScaler", module.GradScaler)
    for name, each in list(sys.modules.items()):
        if name.startswith("espnet2.") and "autocast" in vars(each):
            monkeypatch.setattr(each, "autocast", each.autocast)
    return module


class Model(nn.Module):
    """One matrix; remembers of which type its products were."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.types = []

    def forward(self, x, utt_id):
        y = self.linear(x)
        self.types.append(y.dtype)
        loss = y.float().square().mean()
        return loss, {"loss": loss.detach()}, torch.tensor(float(len(x)))


def options(trainer, use_amp):
    given = dict.fromkeys(field.name for field in fields(trainer.TrainerOptions))
    given |= dict(ngpu=0, use_amp=use_amp, accum_grad=1, log_interval=1)
    return trainer.TrainerOptions(**given | dict(grad_clip=5.0, grad_clip_type=2.0))


def train(trainer, model, batches, use_amp=True):
    """Steps of ESPnet's own loop; True where none had finite gradients."""
    reporter = import_module("espnet2.train.reporter").Reporter()
    reporter.set_epoch(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with reporter.observe("train") as observed:
        return trainer.Trainer.train_one_epoch(
            model=model,
            iterator=[(["a"], {"x": x}) for x in batches],
            optimizers=[optimizer],
            schedulers=[None],
            scaler=trainer.GradScaler() if use_amp else None,
            reporter=observed,
            summary_writer=None,
            options=options(trainer, use_amp),
            distributed_option=trainer.DistributedOption(),
        )


@pytest.mark.parametrize("supported", [True, False])
@pytest.mark.parametrize("use_amp", [True, False])
def test_products_are_bfloat16_where_the_cpu_has_it(
    trainer, monkeypatch, use_amp, supported
):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: supported)
    precision.mix_on_cpu(trainer)
    model = Model()
    train(trainer, model, [torch.randn(4, 8)], use_amp=use_amp)
    mixed = use_amp and supported
    assert model.types == [torch.bfloat16 if mixed else torch.float32]


@pytest.mark.parametrize("supported", [True, False])
@pytest.mark.parametrize("use_amp", [True, False])
def test_a_step_without_finite_gradients_changes_nothing(
    trainer, monkeypatch, use_amp, supported
):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: supported)
    precision.mix_on_cpu(trainer)
    model = Model()
    before = model.linear.weight.detach().clone()
    assert train(trainer, model, [torch.full((4, 8), torch.nan)], use_amp)
    assert model.linear.weight.equal(before)
    assert not train(trainer, model, [torch.randn(4, 8)], use_amp)
    assert model.linear.weight.isfinite().all()
    assert not model.linear.weight.equal(before)


def test_features_are_float32_and_what_follows_is_not(trainer, monkeypatch):
    model_module = import_module("espnet2.asr.espnet_model")
    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)
    assert model_module.autocast is trainer.autocast
    precision.mix_on_cpu(trainer)
    assert model_module.autocast is trainer.autocast
    x, w = torch.randn(2, 2), torch.randn(2, 2)
    types = []
    with trainer.autocast("cuda", enabled=True):
        types.append((x @ w).dtype)
        # as ESPnet's model does around its frontend
        with model_module.autocast("cuda", enabled=False, dtype=torch.bfloat16):
            types.append((x @ w).dtype)
    assert types == [torch.bfloat16, torch.float32]


@pytest.mark.parametrize("enabled", [True, False])
def test_its_autocast_takes_the_lone_argument_of_an_older_espnet(
    trainer, monkeypatch, enabled
):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)
    precision.mix_on_cpu(trainer)
    with trainer.autocast(enabled):
        assert torch.is_autocast_enabled("cpu") is enabled


def test_a_training_begun_without_it_goes_on(trainer):
    state = torch.amp.GradScaler("cpu", enabled=False).state_dict()
    precision.mix_on_cpu(trainer)
    scaler = trainer.GradScaler()
    before = scaler.state_dict()
    scaler.load_state_dict(state)
    assert scaler.state_dict() == before
    scaler.load_state_dict(before | {"scale": 2.0})
    assert scaler.state_dict()["scale"] == 2.0


def test_steps_in_float32_are_those_without_use_amp(trainer, monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: False)
    precision.mix_on_cpu(trainer)
    model, other = Model(), Model()
    other.load_state_dict(model.state_dict())
    batches = list(torch.randn(3, 4, 8))
    train(trainer, model, batches, use_amp=True)
    train(trainer, other, batches, use_amp=False)
    # the scale of the loss is a power of two
    assert model.linear.weight.equal(other.linear.weight)


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16", "bf16"])
@pytest.mark.parametrize("has", [True, False])
def test_any_of_a_cpus_instructions_for_bfloat16_counts(name, has, monkeypatch):
    found = {"avx2": True, name: has}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    assert precision.has_bfloat16() is has


def test_where_there_is_a_gpu_espnet_stays_as_it_is(trainer, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = trainer.autocast, trainer.GradScaler
    precision.mix_on_cpu(trainer)
    assert (trainer.autocast, trainer.GradScaler) == before


def test_an_autocast_of_a_modules_own_stays(trainer, monkeypatch):
    other = ModuleType("espnet2.other")
    other.autocast = own = object()
    monkeypatch.setitem(sys.modules, other.__name__, other)
    precision.mix_on_cpu(trainer)
    assert other.autocast is own


@pytest.mark.parametrize("supported, says", [(True, "bfloat16"), (False, "float32")])
def test_the_log_says_in_which_numbers(trainer, monkeypatch, caplog, supported, says):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: supported)
    precision.mix_on_cpu(trainer)
    with caplog.at_level(logging.INFO):
        trainer.GradScaler()
    assert f"use_amp: this CPU computes in {says}" in caplog.text
