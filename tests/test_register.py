"""`srupp` is known to each of ESPnet's tasks, whenever that is imported."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import espnet2.tasks
import pytest
import torch
from espnet2.tasks.asr import ASRTask

from espnet_srupp.compat import AbsEncoder, ClassChoices, exists
from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.register import TASKS, ChangeOnImport

OTHER_CALLING_CONVENTIONS = {
    f"espnet2.tasks.{name}" for name in ("beats", "hubert", "lid", "s2t_ctc", "spk")
}
DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_encoder_choice_of_a_task_has_srupp(task):
    if not exists(task):
        pytest.skip(f"this generation of ESPnet has no {task}")
    choices = [
        value
        for value in vars(importlib.import_module(task)).values()
        if isinstance(value, ClassChoices) and value.base_type is AbsEncoder
    ]
    assert choices
    assert {c.get_class("srupp") for c in choices} == {SRUppEncoder}
    assert all("srupp" in c.choices() for c in choices)


def test_enhancement_keeps_its_own_encoders():
    enh_s2t = importlib.import_module("espnet2.tasks.enh_s2t")
    assert enh_s2t.asr_encoder_choices.get_class("srupp") is SRUppEncoder
    assert "srupp" not in enh_s2t.enh_encoder_choices.choices()


def test_no_task_with_an_abs_encoder_is_forgotten():
    def imports_abs_encoder(path):
        imported = {
            (node.module, alias.name)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        # a task may copy another's choices, with what they have at that moment
        copied = "espnet2.tasks.asr", "encoder_choices"
        return {("espnet2.asr.encoder.abs_encoder", "AbsEncoder"), copied} & imported

    (directory,) = map(Path, espnet2.tasks.__path__)
    with_one = {
        f"espnet2.tasks.{module.name}"
        for module in pkgutil.iter_modules([str(directory)])
        if imports_abs_encoder(directory / f"{module.name}.py")
    }
    assert with_one - TASKS == {t for t in OTHER_CALLING_CONVENTIONS if exists(t)}


def test_a_task_that_this_espnet_lacks_is_not_found():
    assert ChangeOnImport().find_spec("espnet2.tasks.asr", ["no/folder"]) is None


BEFORE_AND_AFTER = """
import espnet2.tasks.ssl as before, espnet_srupp.register, espnet2.tasks.mt as after
print(before.encoder_choices.classes["srupp"] is after.encoder_choices.classes["srupp"])
import inspect
print(inspect.getsource(after).count("class MTTask"))
"""


def test_tasks_imported_before_and_after_get_it_and_keep_their_source():
    output = subprocess.check_output([sys.executable, "-c", BEFORE_AND_AFTER])
    assert output.decode().splitlines()[-2:] == ["True", "1"]


FROM_INFERENCE = """
from espnet_srupp.inference import Speech2Text
import espnet2.tasks.asr as asr
print(Speech2Text.__module__, "srupp" in asr.encoder_choices.classes)
"""


def test_who_imports_espnets_class_from_here_has_it_registered():
    output = subprocess.check_output([sys.executable, "-c", FROM_INFERENCE])
    assert output.decode().splitlines()[-1] == "espnet2.bin.asr_inference True"


@pytest.mark.parametrize("generation", [202511, 202611])
def test_a_model_trained_with_either_espnet_gives_the_same_here(generation):
    checkpoint = DATA / f"checkpoint_{generation}"  # by data/write_checkpoint.py
    model, _ = ASRTask.build_model_from_file(
        checkpoint / "config.yaml", checkpoint / "model.pth", "cpu"
    )
    torch.manual_seed(0)
    with torch.no_grad():
        encoder_out, _ = model.eval().encode(
            torch.randn(2, 8000), torch.tensor([8000, 5000])
        )
    expected = torch.load(checkpoint / "encoder_out.pt")
    torch.testing.assert_close(encoder_out, expected)
