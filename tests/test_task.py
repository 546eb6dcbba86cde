"""The task class that ESPnet3 names: known by its path, in any process."""

import importlib
import pickle
import subprocess
import sys

import pytest
from processes import unchecked

from espnet_srupp.compat import ASR_TASK, GENERATION
from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.task import ASRTask

MODEL = {
    "encoder": "srupp",
    "encoder_conf": {
        "output_size": 4,
        "hidden_size": 8,
        "attention_size": 4,
        "num_blocks": 2,
        "embed_size": 4,
    },
    "decoder": None,
    "model_conf": {"ctc_weight": 1.0},
    "input_size": 8,
    "token_list": ["<blank>", "<unk>", "a", "<sos/eos>"],
}


def test_it_is_espnets_own_task():
    assert issubclass(ASRTask, importlib.import_module(ASR_TASK).ASRTask)


def test_unpickling_it_in_a_fresh_process_registers():
    code = (
        "import pickle, sys; pickle.load(sys.stdin.buffer);"
        "import espnet2.tasks.asr as asr; print(asr.encoder_choices.classes['srupp'])"
    )
    output = subprocess.check_output(
        [sys.executable, "-c", code],
        input=pickle.dumps(ASRTask.main_worker),
        env=unchecked(),
    )
    assert output.decode().splitlines()[-1] == str(SRUppEncoder)


@pytest.mark.skipif(GENERATION == 202511, reason="ESPnet 202511 has no espnet3")
def test_espnet3_builds_the_model_from_its_path():
    from espnet3.utils.task_utils import get_espnet_model

    model = get_espnet_model("espnet_srupp.task.ASRTask", MODEL)
    assert isinstance(model.encoder, SRUppEncoder)
