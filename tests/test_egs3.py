"""ESPnet3's own recipe mini_an4, on its own audio, with `encoder: srupp`."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from processes import unchecked

from espnet_srupp.compat import GENERATION

NEEDED = ("lightning", "distributed", "dask_jobqueue")
pytestmark = [
    pytest.mark.skipif(GENERATION == 202511, reason="ESPnet 202511 has no egs3"),
    pytest.mark.skipif(
        None in map(find_spec, NEEDED), reason="pip install espnet[train]"
    ),
]
STAGES = "create_dataset train_tokenizer collect_stats train infer measure".split()
# of sph2pipe, which the recipe calls, as far as it is needed
SPH2PIPE = f"""#!{sys.executable}
import io, soundfile, sys
samples, rate = soundfile.read(sys.argv[-1], dtype="int16")
wav = io.BytesIO()
soundfile.write(wav, samples, rate, format="WAV")
sys.stdout.buffer.write(wav.getvalue())
"""


def edit(path, name, change):
    config = yaml.safe_load(path.read_text())
    change(config)
    path.with_name(name).write_text(yaml.safe_dump(config))


def with_srupp(config):
    config["task"] = "espnet_srupp.task.ASRTask"
    sizes = {"hidden_size": 16, "attention_size": 8, "embed_size": 8, "output_size": 8}
    config["model"] |= {"encoder": "srupp", "encoder_conf": {**sizes, "num_blocks": 2}}
    # statistics in this process; decoding takes Dask in any case
    config["parallel"] = None
    # a whole epoch: four utterances in batches of two
    del config["trainer"]["limit_train_batches"]


def with_srupp_known(config):
    config["model"]["_target_"] = "espnet_srupp.inference.Speech2Text"
    config["model"]["asr_model_file"] = "${exp_dir}/epoch0_step2_valid.loss.ckpt"
    # one hypothesis of a few tokens, as the model has learnt nothing yet
    config["model"]["maxlenratio"] = -5


def test_espnet3_trains_and_decodes(tmp_path):
    (package,) = find_spec("egs3").submodule_search_locations
    recipe = tmp_path / "esp2_asr"
    shutil.copytree(Path(package, "mini_an4", "esp2_asr"), recipe)
    conf = recipe / "conf"
    edit(conf / "training_asr_transformer.yaml", "srupp.yaml", with_srupp)
    edit(conf / "inference.yaml", "decode.yaml", with_srupp_known)
    (tmp_path / "sph2pipe").write_text(SPH2PIPE)
    (tmp_path / "sph2pipe").chmod(0o755)
    done = subprocess.run(
        [
            *(sys.executable, "run.py", "--stages", *STAGES),
            *("--training_config", "conf/srupp.yaml"),
            *("--inference_config", "conf/decode.yaml"),
            *("--metrics_config", "conf/metrics.yaml"),
        ],
        cwd=recipe,
        env={
            **unchecked(recipe),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    exp = recipe / "exp" / "srupp"
    assert "encoder: srupp" in (exp / "config.yaml").read_text()
    for name, count in (("valid", 1), ("test", 2)):
        lines = (exp / "decode" / name / "text.scp").read_text().splitlines()
        assert len({line.split()[0] for line in lines}) == len(lines) == count
