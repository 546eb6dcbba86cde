"""Trains a tiny model with the installed ESPnet and keeps it for the tests.

python3 tests/data/write_checkpoint.py, once with each generation of ESPnet, writes
tests/data/checkpoint_<generation>/{config.yaml,model.pth,encoder_out.pt}. To be done
again only when parameters of the encoder change their names or shapes.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import soundfile
import torch
import yaml
from espnet2.tasks.asr import ASRTask

import espnet_srupp.register  # noqa: F401
from espnet_srupp.compat import GENERATION

SAMPLES = 8000
CONFIG = {
    "encoder": "srupp",
    "encoder_conf": {
        "output_size": 4,
        "hidden_size": 8,
        "attention_size": 4,
        "num_blocks": 2,
        "embed_size": 4,
    },
    "model_conf": {"ctc_weight": 1.0},
    "frontend_conf": {"n_fft": 64, "hop_length": 32, "n_mels": 8},
    "normalize": "utterance_mvn",
    "token_type": "char",
    "token_list": ["<blank>", "<unk>", "a", "<sos/eos>"],
    "optim": "adam",
    "batch_type": "unsorted",
    "batch_size": 1,
    "max_epoch": 1,
    "num_workers": 0,
    "use_tensorboard": False,
    "use_matplotlib": False,
}


def write_data(directory: Path) -> list[str]:
    """One utterance of noise, and the options that name it for both sets."""
    torch.manual_seed(0)
    soundfile.write(directory / "noise.wav", torch.rand(SAMPLES).numpy(), 16000)
    (directory / "wav.scp").write_text(f"noise {directory / 'noise.wav'}\n")
    (directory / "text").write_text("noise aa\n")
    options = []
    for part in ("train", "valid"):
        options += [f"--{part}_shape_file", f"{directory}/text"]
        for kind in ("wav.scp,speech,sound", "text,text,text"):
            options += [f"--{part}_data_path_and_name_and_type", f"{directory}/{kind}"]
    return options


def main() -> None:
    target = Path(__file__).parent / f"checkpoint_{GENERATION}"
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "train.yaml").write_text(yaml.safe_dump(CONFIG))
        command = [sys.executable, "-m", "espnet_srupp.run", "-m"]
        command += ["espnet2.bin.asr_train", "--config", str(directory / "train.yaml")]
        command += ["--output_dir", str(directory / "exp"), *write_data(directory)]
        subprocess.run(command, check=True)
        target.mkdir(exist_ok=True)
        shutil.copy(directory / "exp" / "config.yaml", target / "config.yaml")
        shutil.copy(directory / "exp" / "1epoch.pth", target / "model.pth")
    model, _ = ASRTask.build_model_from_file(
        target / "config.yaml", target / "model.pth", "cpu"
    )
    torch.manual_seed(0)
    speech, lengths = torch.randn(2, SAMPLES), torch.tensor([SAMPLES, 5000])
    with torch.no_grad():
        encoder_out, _ = model.eval().encode(speech, lengths)
    torch.save(encoder_out, target / "encoder_out.pt")


if __name__ == "__main__":
    main()
