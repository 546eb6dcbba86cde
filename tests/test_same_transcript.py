"""An utterance gets the same transcript alone and in any batch, with either ESPnet."""

import argparse
import random

import pytest
import torch
import yaml
from data.small_models import CONFIG as SMALL
from espnet2.bin.asr_inference import Speech2Text

import espnet_srupp.run  # noqa: F401
from espnet_srupp.compat import GENERATION
from espnet_srupp.task import ASRTask

RATE = 8000
CONFIG = SMALL | {
    "token_list": ["<blank>", "<unk>", *"ABCDEFGH", "<sos/eos>"],
    "token_type": "char",
    "frontend_conf": {"fs": RATE, "n_fft": 128, "hop_length": 80, "n_mels": 20},
    "normalize": "utterance_mvn",
    "normalize_conf": {},
    "encoder": "srupp",
    "encoder_conf": {
        "output_size": 16,
        "hidden_size": 32,
        "attention_size": 16,
        "num_blocks": 3,
        "embed_size": 16,
    },
    "decoder_conf": {"attention_heads": 2, "linear_units": 16, "num_blocks": 1},
}


@pytest.fixture(scope="module")
def speech2text(tmp_path_factory):
    """A random model whose layers attend and whose scores differ clearly."""
    exp = tmp_path_factory.mktemp("exp")
    (exp / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    torch.manual_seed(0)
    model = ASRTask.build_model(argparse.Namespace(**CONFIG))
    with torch.no_grad():
        for layer in model.encoder.encoders:
            layer.attention.alpha.fill_(1)
        model.ctc.ctc_lo.weight *= 20
        model.decoder.output_layer.weight *= 5
    torch.save(model.state_dict(), exp / "model.pth")
    options = {"beam_size": 3, "ctc_weight": 0.5, "maxlenratio": -8}
    if GENERATION >= 202611:
        options |= {"batch_size": 4, "ctc_window_margin": 0}
    return Speech2Text(exp / "config.yaml", exp / "model.pth", **options)


@pytest.fixture(scope="module")
def waves():
    """Twelve utterances of noise that changes its colour, of 0.3 to 1.2 s."""
    generator = torch.Generator().manual_seed(0)
    result = []
    for number in range(12):
        noise = torch.randn(2400 + 640 * number + 37 * number**2, generator=generator)
        phase = torch.arange(len(noise)) / RATE * 2 * torch.pi
        tone = (phase * 300 * (1 + number % 5)).sin() * (phase * 3).sin()
        result.append(0.1 * noise + tone)
    return result


def encode(speech2text, waves):
    """The encoder's output of each of a batch, cut to its length."""
    lengths = torch.tensor([len(wave) for wave in waves])
    padded = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)
    with torch.no_grad():
        encoded, olens = speech2text.asr_model.encode(padded, lengths)
    return [row[:length] for row, length in zip(encoded, olens, strict=True)]


@pytest.mark.parametrize("size", [2, 5, 12])
def test_frames_alone_and_in_a_batch(speech2text, waves, size):
    for batch in batches(size):
        for each, i in zip(
            encode(speech2text, [waves[i] for i in batch]), batch, strict=True
        ):
            (alone,) = encode(speech2text, [waves[i]])
            torch.testing.assert_close(each, alone, rtol=1e-4, atol=1e-4)


def greedy(speech2text, encoded):
    ids = speech2text.asr_model.ctc.argmax(encoded[None])[0]
    return tuple(i for i in torch.unique_consecutive(ids).tolist() if i)


def search(speech2text, encoded):
    """ESPnet's joint beam search over one utterance: its tokens."""
    return tuple(speech2text._decode_single_sample(encoded)[0][2])


def batches(size):
    order = list(range(12))
    random.Random(size).shuffle(order)
    return [order[i : i + size] for i in range(0, 12, size)]


@pytest.mark.parametrize("decode", [greedy, search])
@pytest.mark.parametrize("size", [2, 5, 12])
def test_alone_and_in_a_batch(speech2text, waves, decode, size):
    alone = [decode(speech2text, encode(speech2text, [wave])[0]) for wave in waves]
    assert len(set(alone)) > 6
    for batch in batches(size):
        encoded = encode(speech2text, [waves[i] for i in batch])
        found = [decode(speech2text, each) for each in encoded]
        assert found == [alone[i] for i in batch]


@pytest.mark.skipif(GENERATION < 202611, reason="this ESPnet decodes no batches")
@pytest.mark.parametrize("size", [2, 5, 12])
def test_espnets_batched_search(speech2text, waves, size):
    alone = [speech2text(wave)[0][2] for wave in waves]
    for batch in batches(size):
        found = [each[0][2] for each in speech2text([waves[i] for i in batch])]
        assert found == [alone[i] for i in batch]
