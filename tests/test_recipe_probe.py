"""The attention that is shown is the one that the model uses."""

import argparse

import numpy as np
import pytest
import torch
from data.small_models import config_of, make, noise

from espnet_srupp.attention import SRUppAttention
from espnet_srupp.recipe import probe
from espnet_srupp.task import ASRTask


def test_recorded_weights_are_those_of_the_attention():
    module = SRUppAttention(hidden_size=6, attention_size=4, attention_heads=2)
    found = {}
    module.register_forward_pre_hook(probe.recorder(found, "a"))
    x = torch.randn(5, 1, 6)
    with torch.no_grad():
        module.alpha.fill_(1)
        u = module(x)
        q = module.queries(x)
        a = found["a"] @ module.split(module.value(q))[0]  # (heads, T, d'/heads)
        q = q + a.transpose(0, 1).reshape(q.shape)
        expected = module.output(module.norm(q)).view(u.shape)
    torch.testing.assert_close(u, expected)
    torch.testing.assert_close(found["a"].sum(-1), torch.ones(2, 5))


def test_layers_are_ordered_by_number():
    names = ["decoder.decoders.9.src_attn", "decoder.decoders.10.src_attn"]
    assert probe.last(dict.fromkeys(names)) == names[1]


@pytest.mark.parametrize("encoder", ["srupp", "conformer"])
def test_the_decoder_s_attention_is_that_to_the_audio(tmp_path, encoder):
    make(tmp_path, encoder)
    stats = str(tmp_path / "exp/stats/train/feats_stats.npz")
    config = config_of(encoder, normalize_conf={"stats_file": stats})
    model = ASRTask.build_model(argparse.Namespace(**config)).eval()
    found = probe.attentions(model, noise(4000), np.array([2, 4, 5]))
    frames = len(found["encoder"])
    # three tokens and the end
    assert found["decoder"].shape == (4, frames) and frames > 4
    assert found["encoder"].shape == (frames, frames)
