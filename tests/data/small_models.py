"""Small models with random parameters, and audio for them."""

import argparse

import numpy as np
import soundfile
import torch
import yaml
from espnet2.bin.asr_inference import Speech2Text

from espnet_srupp.task import ASRTask

RATE = 4000
ENCODERS = {
    "srupp": {"hidden_size": 16, "attention_size": 8, "num_blocks": 2, "embed_size": 8},
    "conformer": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "rnn": {"num_layers": 1, "hidden_size": 8},
}
ENCODERS["interctc"] = ENCODERS["srupp"] | {
    "interctc_layer_idx": [1],
    "interctc_use_conditioning": True,
}
CONFIG = {
    "token_list": ["<blank>", "<unk>", "▁A", "▁", "B", "C", "<sos/eos>"],
    "token_type": "bpe",
    "bpemodel": None,
    "input_size": None,
    "frontend": "default",
    "frontend_conf": {"fs": "4k", "n_fft": 64, "hop_length": 20, "n_mels": 16},
    "specaug": None,
    "normalize": "global_mvn",
    "normalize_conf": {"stats_file": "exp/stats/train/feats_stats.npz"},
    "preencoder": None,
    "postencoder": None,
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "ctc_conf": {},
    "joint_net_conf": None,
    "model": "espnet",
    "model_conf": {"ctc_weight": 0.5},
    "init": None,
}


def config_of(encoder, **changes):
    conf = {"output_size": 8, **ENCODERS[encoder]}
    name = "srupp" if encoder == "interctc" else encoder
    return CONFIG | {"encoder": name, "encoder_conf": conf} | changes


def make(recipe, encoder="srupp", **changes):
    """An experiment with random parameters in a recipe's folder."""
    exp = recipe / "exp" / f"asr_{encoder}"
    exp.mkdir(parents=True, exist_ok=True)
    stats = recipe / "exp" / "stats" / "train" / "feats_stats.npz"
    stats.parent.mkdir(parents=True, exist_ok=True)
    moments = {"count": 9, "sum": np.arange(16.0), "sum_square": np.full(16, 99.0)}
    np.savez(stats, **moments)
    config = config_of(encoder, **changes)
    (exp / "config.yaml").write_text(yaml.safe_dump(config))
    conf = dict(config["normalize_conf"])
    if config["normalize"] == "global_mvn":
        conf["stats_file"] = str(stats)
    torch.manual_seed(1)
    made = ASRTask.build_model(argparse.Namespace(**config | {"normalize_conf": conf}))
    torch.save(made.state_dict(), exp / "valid.acc.ave.pth")
    return exp


def noise(samples, seed=0):
    made = 0.5 * np.random.default_rng(seed).uniform(-1, 1, samples)
    return made.astype(np.float32)


def espnets_texts(recipe, **options):
    """The words that ESPnet decodes of the audio, which the recipe's folder is for."""
    exp = recipe / "exp/asr_srupp"
    speech2text = Speech2Text(exp / "config.yaml", exp / "valid.acc.ave.pth", **options)
    for name in "abc":
        samples, _ = soundfile.read(recipe / f"wav/{name}.flac", dtype="float32")
        (_, tokens, *_), *_ = speech2text(samples)
        yield "".join(tokens).replace("<unk>", "▁⁇▁").replace("▁", " ").split()
