"""A recipe of spoken tones: its folder, its data and how it is run."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import soundfile
from processes import unchecked

from espnet_srupp.recipe import asr, datadir
from espnet_srupp.recipe.datadir import DataDir

ROOT = Path(__file__).parents[2]
RATE = 8000
WORDS = {"ONE": 500, "TWO": 900, "THREE": 1500, "FOUR": 2300}
SETS = {"train": 12, "dev": 4, "test": 4}
CONFIG = """
encoder: srupp
encoder_conf: {hidden_size: 16, attention_size: 8, num_blocks: 2, embed_size: 8,
    output_size: 8}
decoder: transformer
decoder_conf: {attention_heads: 2, linear_units: 8, num_blocks: 1}
model_conf: {ctc_weight: 0.5}
frontend_conf: {n_fft: 256, hop_length: 80, n_mels: 40}
batch_type: unsorted
batch_size: 6
max_epoch: 1
num_workers: 0
num_att_plot: 0
optim: adam
best_model_criterion: [[valid, acc, max]]
"""
LM_CONFIG = """
lm: seq_rnn
lm_conf: {unit: 16, nlayers: 1}
batch_type: numel
batch_bins: 2000
max_epoch: 2
num_workers: 0
optim: adam
best_model_criterion: [[valid, loss, min]]
"""
OPTIONS = [
    *("--corpus", "mini", "--train_set", "train", "--valid_set", "dev"),
    *("--test_sets", "test", "--fs", "8k", "--nbpe", "15", "--stage", "2"),
    *("--nj", "1", "--inference_nj", "2", "--asr_config", "conf/train.yaml"),
    *("--lm_config", "conf/train_lm.yaml"),
    *("--inference_args", "--beam_size 2 --maxlenratio -6"),
    *("--speed_perturb_factors", "0.9 1.0"),
]
RUN = f"""#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
. ../../path.sh
exec python3 -m espnet_srupp.recipe.asr {shlex.join(OPTIONS)} "$@"
"""


def speak(words, seed):
    """A tone for each word, with a little noise, in [-1, 1]."""
    t = np.arange(int(0.4 * RATE)) / RATE
    tones = [np.sin(2 * np.pi * WORDS[word] * t) * np.hanning(len(t)) for word in words]
    audio = np.concatenate(tones)
    return 0.5 * audio + 0.01 * np.random.default_rng(seed).standard_normal(len(audio))


def make_corpus(recipe):
    for kind, count in SETS.items():
        made = DataDir({}, {}, {})
        (recipe / "wav").mkdir(exist_ok=True)
        for n in range(count):
            utterance = f"{kind}-{n:02}"
            words = list(np.random.default_rng(n).choice(list(WORDS), 2 + n % 3))
            path = recipe / "wav" / f"{utterance}.flac"
            soundfile.write(path, speak(words, n), RATE)
            made.wav[utterance] = f"wav/{path.name}"
            made.text[utterance] = " ".join(words)
            made.utt2spk[utterance] = utterance
        datadir.write(made, recipe / "data" / kind)


def make_recipe(root):
    """A recipe's folder with its data, outside of the repository."""
    recipe = root / "recipes" / "tones" / "asr1"
    (recipe / "conf").mkdir(parents=True)
    shutil.copy(ROOT / "recipes" / "path.sh", root / "recipes")
    (root / "espnet_srupp").symlink_to(ROOT / "espnet_srupp")
    (recipe / "conf" / "train.yaml").write_text(CONFIG)
    (recipe / "conf" / "train_lm.yaml").write_text(LM_CONFIG)
    (recipe / "run.sh").write_text(RUN)
    (recipe / "run.sh").chmod(0o755)
    make_corpus(recipe)
    return recipe


def environment(checked=False):
    """The environment of this very Python, as when it is activated.

    ESPnet checks the types of arguments, as it does for users, where that is asked for.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    found = dict(os.environ) if checked else unchecked()
    return found | {"PATH": path, "VIRTUAL_ENV": sys.prefix}


def run(recipe, *words, checked=False):
    """Runs run.sh from another folder; returns what it prints."""
    done = subprocess.run(
        [str(recipe / "run.sh"), *words],
        capture_output=True,
        text=True,
        cwd=recipe.parents[1],
        env=environment(checked),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def mistake(recipe, monkeypatch, capfd, *words):
    """Runs the command line in this process; returns the one sentence of its error."""
    monkeypatch.chdir(recipe)
    monkeypatch.setenv("PYTHONPATH", unchecked()["PYTHONPATH"])
    capfd.readouterr()
    assert asr.main([*OPTIONS, *words]) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    return last
