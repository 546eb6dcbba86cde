"""ESPnet decodes a transducer whose encoder is SRU++."""

import sys
from types import SimpleNamespace

import pytest
import torch
from data.small_models import make, noise
from espnet2.bin.asr_inference import Speech2Text

DECODER = {"rnn_type": "lstm", "num_layers": 1, "hidden_size": 8}


@pytest.fixture
def exp(tmp_path, monkeypatch):
    """An experiment whose random scores differ clearly."""
    # ESPnet makes the loss of a package that has to be compiled, and decodes without it
    loss = SimpleNamespace(RNNTLoss=lambda **_: torch.nn.Identity())
    monkeypatch.setitem(sys.modules, "warprnnt_pytorch", loss)
    changes = {"decoder": "transducer", "decoder_conf": DECODER}
    joint = {"joint_net_conf": {"joint_space_size": 8}}
    exp = make(
        tmp_path, normalize="utterance_mvn", normalize_conf={}, **changes, **joint
    )
    path = exp / "valid.acc.ave.pth"
    state = torch.load(path)
    for name in state:
        if name.startswith("joint_network"):
            state[name] *= 8
    torch.save(state, path)
    return exp


@torch.inference_mode()
def greedy(model, samples):
    """The likeliest token of each frame, each seen with those before it."""
    encoded, _ = model.encode(
        torch.from_numpy(samples)[None], torch.tensor([len(samples)])
    )
    tokens = [model.blank_id]
    model.decoder.set_device("cpu")
    for frame in encoded[0]:
        seen = model.decoder(torch.tensor([tokens]))[0, -1]
        token = int(model.joint_network(frame, seen).argmax())
        tokens += [token] if token != model.blank_id else []
    return tokens[1:]


def test_espnet_decodes_a_transducer_on_srupp(exp):
    files = exp / "config.yaml", exp / "valid.acc.ave.pth"
    samples = noise(4000)
    speech2text = Speech2Text(*files, beam_size=1)
    ((_, _, ids, _),) = speech2text(samples)
    assert len(set(ids)) > 1
    assert ids == greedy(speech2text.asr_model, samples)
    # the default search of several hypotheses may take a random model's for ever
    bounded = {"search_type": "tsd", "max_sym_exp": 2}
    speech2text = Speech2Text(*files, beam_size=3, transducer_conf=bounded)
    ((_, _, ids, _),) = speech2text(samples)
    assert ids
