"""Looks into a trained model: sizes of its parts, and what it attends to.

usage: python3 -m espnet_srupp.run -m espnet_srupp.recipe.probe --help
"""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import torch
from espnet2.main_funcs.calculate_all_attentions import calculate_all_attentions
from torch import Tensor, nn

from espnet_srupp.attention import SRUppAttention
from espnet_srupp.task import ASRTask


def main() -> None:
    """Writes `OUTPUT/model.json` and `OUTPUT/attention.npz`."""
    parser = argparse.ArgumentParser(description="Looks into a trained model.")
    parser.add_argument("--asr_train_config", required=True)
    parser.add_argument("--asr_model_file", required=True)
    parser.add_argument("--wav", required=True, help="audio of one utterance")
    parser.add_argument("--text", required=True, help="its transcript")
    parser.add_argument("--output", required=True, type=Path)
    given = parser.parse_args()
    model, config = ASRTask.build_model_from_file(
        given.asr_train_config, given.asr_model_file, "cpu"
    )
    speech, rate = soundfile.read(given.wav, dtype="float32")
    preprocess = ASRTask.build_preprocess_fn(config, train=False)
    prepared = preprocess("probe", {"speech": speech, "text": given.text})
    ids = prepared["text"]
    arrays = attentions(model.eval(), prepared["speech"], ids)
    # the decoder's steps: each predicts one of these
    steps = [*(config.token_list[i] for i in ids), "<eos>"]
    arrays["tokens"] = np.array([token.replace("▁", "_") for token in steps])
    arrays["seconds"] = np.array(len(speech) / rate)
    given.output.mkdir(parents=True, exist_ok=True)
    np.savez(given.output / "attention.npz", **arrays)
    sizes = {"encoder": parameters(model.encoder), "model": parameters(model)}
    (given.output / "model.json").write_text(json.dumps(sizes))


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@torch.no_grad()
def attentions(model: nn.Module, speech: np.ndarray, ids: np.ndarray) -> dict:
    """Features (T, mel), the last attention of encoder (T', T') and decoder (L, T').

    Heads are averaged. Encoders and decoders without attention are left out.
    """
    batch = {
        "speech": torch.from_numpy(speech)[None],
        "speech_lengths": torch.tensor([len(speech)]),
        "text": torch.from_numpy(ids).long()[None],
        "text_lengths": torch.tensor([len(ids)]),
    }
    encoder = watch(model.encoder)
    found = {name: w[0] for name, w in calculate_all_attentions(model, batch).items()}
    decoder = {
        name: weights
        for name, weights in found.items()
        if name.startswith("decoder") and "src_attn" in name
    }
    features, _ = model._extract_feats(batch["speech"], batch["speech_lengths"])
    arrays = {"features": features[0].numpy()}
    for part, weights in (("encoder", encoder), ("decoder", decoder)):
        if weights:
            arrays[part] = mean_of_heads(weights[last(weights)])
    return arrays


def watch(encoder: nn.Module) -> dict[str, Tensor]:
    """Keeps what an encoder attends to, from now on whenever it runs.

    Args:
        encoder: SRU++ or one of ESPnet's.

    Returns:
        The weights (heads, T', T') of each attention by its module's name, once the
        encoder has run over a single utterance; nothing for one without attention.
    """
    found: dict[str, Tensor] = {}
    for name, module in encoder.named_modules():
        if isinstance(module, SRUppAttention) and module.attention:
            module.register_forward_pre_hook(recorder(found, name))
        elif hasattr(module, "attn"):
            module.register_forward_hook(keeper(found, name))
    return found


def last(found: dict[str, Tensor]) -> str:
    """The name of the last layer's attention."""
    return max(found, key=order)


def mean_of_heads(weights: Tensor) -> np.ndarray:
    """(heads, T, T') or (T, T') -> (T, T')"""
    return weights.reshape(-1, *weights.shape[-2:]).mean(0).numpy()


def keeper(found: dict[str, Tensor], name: str) -> Callable[..., None]:
    """A hook that keeps the weights (heads, T, T) of one of ESPnet's attentions."""

    def hook(module: nn.Module, *_: object) -> None:
        # a layer that calls its attention so is none
        if isinstance(module.attn, Tensor):
            found[name] = module.attn[0]

    return hook


def recorder(found: dict[str, Tensor], name: str) -> Callable[..., None]:
    """A hook that keeps the weights (heads, T, T) of an SRU++ attention."""

    def hook(module: SRUppAttention, inputs: tuple) -> None:
        found[name] = scores(module, inputs[0]).softmax(-1)[0]

    return hook


def scores(module: SRUppAttention, x: Tensor) -> Tensor:
    """What the softmax is taken of: frames (T, B, d) -> (B, heads, T, T)."""
    q = module.queries(x)  # (T, B, d')
    q, k = module.split(q), module.split(module.key(q))
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def order(name: str) -> list[int]:
    """The numbers in a module's name, so that layer 10 comes after layer 9."""
    return [int(word) for word in name.split(".") if word.isdigit()]
