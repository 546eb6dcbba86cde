"""The encoder is what ESPnet asks of one."""

import copy
import io
import math

import pytest
import torch
from data.small_encoder import SMALL, build
from espnet2.asr.ctc import CTC
from torch import nn
from typeguard import TypeCheckError

from espnet_srupp.encoder import SRUppEncoder

INPUT_LAYERS = ["conv2d", "conv2d1", "conv2d2", "conv2d6", "conv2d8", "linear", None]


@pytest.mark.parametrize("input_layer", [*INPUT_LAYERS, "embed"])
@pytest.mark.parametrize(
    "interctc_layer_idx, interctc_use_conditioning",
    [([], False), ([1], False), ([1], True)],
)
@pytest.mark.parametrize("layer_drop_rate", [0.0, 0.1])
def test_forward_backward(
    input_layer, interctc_layer_idx, interctc_use_conditioning, layer_drop_rate
):
    # the checks and sizes of ESPnet's test_conformer_encoder.py
    encoder = SRUppEncoder(
        20,
        output_size=2,
        hidden_size=8,
        attention_size=4,
        attention_heads=2,
        num_blocks=2,
        embed_size=2,
        input_layer=input_layer,
        interctc_layer_idx=interctc_layer_idx,
        interctc_use_conditioning=interctc_use_conditioning,
        layer_drop_rate=layer_drop_rate,
    )
    x = torch.randn(2, 32, 20, requires_grad=True)
    if input_layer == "embed":
        x = torch.randint(0, 10, [2, 32])
    x_lens = torch.LongTensor([32, 28])
    if interctc_layer_idx:
        ctc = None
        if interctc_use_conditioning:
            vocab_size = 5
            encoder.conditioning_layer = nn.Linear(vocab_size, encoder.output_size())
            ctc = CTC(odim=vocab_size, encoder_output_size=encoder.output_size())
        (y, [(layer, out)]), olens, _ = encoder(x, x_lens, ctc=ctc)
        assert layer == 1 and out.shape == y.shape
    else:
        y, olens, _ = encoder(x, x_lens)
    assert y.shape == (2, olens.max(), 2)
    y.sum().backward()


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"input_layer": "fff"}, "unknown input_layer: fff"),
        (
            {"input_layer": "linear", "separable_subsampling": True},
            "separable_subsampling needs convolutions",
        ),
        ({"attention_interval": 0}, "attention_interval is 0"),
        ({"dropout_rate": 1.5}, "dropout_rate is 1.5: give a number from 0 to 1"),
        ({"dropout_rate": math.nan}, "dropout_rate is nan: give a number"),
        ({"num_blocks": 0}, "num_blocks is 0: give 1 or more"),
        ({"output_size": 0}, "output_size is 0: give 1 or more"),
        ({"attention_heads": -2}, "attention_heads is -2: give 1 or more"),
        ({"attention_dropout_rate": 2}, "attention_dropout_rate is 2.*: give a number"),
        ({"layer_drop_rate": -0.5}, "layer_drop_rate is -0.5: give a number from 0 to"),
        ({"layer_pooling": [1, 2]}, r"layer_pooling is \[1, 2\]: give .* the 3 layers"),
        ({"layer_pooling": [1, 2, 2, 1]}, "for each of the 3 layers"),
        ({"layer_pooling": [1, 0, 1]}, "give a whole number from 1 on for each"),
        ({"layer_pooling": [1, 2.0, 1]}, "give a whole number"),
        ({"layer_pooling": [1, "a", 1]}, "give a whole number"),
        ({"layer_pooling": [1, True, 1]}, "give a whole number"),
        ({"state_weight": 2.0}, "state_weight is 2.0: give a number"),
        (
            {"compile_layers": True, "attention_dropout_rate": 0.1},
            "compile_layers does not go with attention_dropout_rate",
        ),
        ({"embed_size": 0}, "embed_size is 0: give 1 or more"),
        ({"hidden_size": 0}, "hidden_size is 0: give 1 or more"),
        ({"attention_size": 0}, "attention_size is 0: give 1 or more"),
        ({"attention_heads": 3}, "not a multiple of attention_heads 3"),
        ({"hidden_size": 7}, "hidden_size 7 is odd"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        SRUppEncoder(20, **{**SMALL, **options})


def test_a_value_of_another_type_is_refused():
    # which Python would take as true
    with pytest.raises(TypeCheckError, match="bidirectional"):
        build(bidirectional="false")


def test_options_reach_the_modules():
    encoder, _ = build(input_layer="linear", bidirectional=False, dropout_rate=0.2)
    assert not any(layer.bidirectional for layer in encoder.encoders)
    _, norm, dropout = encoder.embed
    assert isinstance(norm, nn.LayerNorm) and dropout.p == 0.2
    assert build(input_layer="embed", padding_idx=3)[0].embed.padding_idx == 3
    convolutions = build(separable_subsampling=True)[0].embed.conv
    assert any(getattr(module, "groups", 1) > 1 for module in convolutions)


@pytest.mark.parametrize("output_size, expected", [(6, 6), (None, 8)])
def test_output_size(output_size, expected):
    encoder, _ = build(output_size=output_size)
    assert encoder.output_size() == expected
    assert encoder(torch.randn(1, 30, 20), torch.tensor([30]))[0].shape[2] == expected


def test_attention_interval_counts_from_the_first_layer():
    encoder, _ = build(num_blocks=5, attention_interval=2)
    attention = [layer.attention.attention for layer in encoder.encoders]
    assert attention == [False, True, False, True, False]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_inference_in_the_type_of_the_weights(dtype):
    encoder, _ = build()
    batch = torch.randn(2, 60, 20), torch.tensor([60, 41])
    expected, _, _ = encoder.eval()(*batch)
    with torch.no_grad():
        found, _, _ = encoder.to(dtype)(batch[0].to(dtype), batch[1])
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.1)


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
def test_inference_with_espnets_dynamic_quantization():
    encoder, _ = build()
    batch = torch.randn(2, 60, 20), torch.tensor([60, 41])
    expected, _, _ = encoder.eval()(*batch)
    quantized = torch.quantization.quantize_dynamic(encoder, {nn.Linear})
    with torch.no_grad():
        found, _, _ = quantized(*batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.3)


def test_state_dict_has_the_same_keys_with_any_espnet():
    encoder, _ = build(num_blocks=2, attention_interval=2)
    assert list(encoder.state_dict()) == [
        "embed.conv.0.weight",
        "embed.conv.0.bias",
        "embed.conv.2.weight",
        "embed.conv.2.bias",
        "embed.linear.weight",
        "embed.linear.bias",
        "input.weight",
        "input.bias",
        "input_norm.weight",
        "input_norm.bias",
        "encoders.0.v",
        "encoders.0.b",
        "encoders.0.attention.query.weight",
        "encoders.0.attention.norm.weight",
        "encoders.0.attention.norm.bias",
        "encoders.0.attention.output.weight",
        "encoders.1.v",
        "encoders.1.b",
        "encoders.1.attention.alpha",
        "encoders.1.attention.query.weight",
        "encoders.1.attention.query_norm.weight",
        "encoders.1.attention.query_norm.bias",
        "encoders.1.attention.key.weight",
        "encoders.1.attention.value.weight",
        "encoders.1.attention.norm.weight",
        "encoders.1.attention.norm.bias",
        "encoders.1.attention.output.weight",
        "after_norm.weight",
        "after_norm.bias",
        "output.weight",
        "output.bias",
    ]


def test_the_papers_stack_has_no_norms_but_the_layers():
    encoder, _ = build(stack_norm=False)
    usual, _ = build()
    norms = {
        f"{norm}.{kind}"
        for norm in ("input_norm", "after_norm")
        for kind in ("weight", "bias")
    }
    assert usual.state_dict().keys() - encoder.state_dict().keys() == norms


def test_weights_survive_a_file_and_a_copy():
    encoder, _ = build()
    batch = torch.randn(2, 60, 20), torch.tensor([60, 41])
    file = io.BytesIO()
    torch.save(encoder.state_dict(), file)
    file.seek(0)
    other, _ = build()
    other.load_state_dict(torch.load(file, weights_only=True))
    expected = encoder.eval()(*batch)
    torch.testing.assert_close(other.eval()(*batch), expected, rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(encoder)(*batch), expected, rtol=0, atol=0)


def test_a_lora_adapter_finds_matrices_alone():
    # ESPnet's `target_modules: [output]` goes by the ends of names
    encoder, _ = build()
    found = [m for name, m in encoder.named_modules() if name.endswith("output")]
    assert len(found) > 1 and all(type(module) is nn.Linear for module in found)


def test_lengths_may_be_int32():
    encoder, _ = build()
    xs_pad, ilens = torch.randn(2, 60, 20), torch.tensor([60, 41])
    found, expected = (encoder.eval()(xs_pad, n) for n in (ilens.int(), ilens))
    torch.testing.assert_close(found, expected)


def test_a_dropped_layer_keeps_the_type_of_its_output():
    encoder, _ = build(layer_drop_rate=0.5)
    x = torch.zeros(1)
    assert encoder.drop_layer(x, x.bfloat16()).dtype == torch.bfloat16


def test_checkpointed_layers_learn_behind_a_frozen_input():
    encoder, _ = build(gradient_checkpointing=True, stack_norm=False)
    for module in (encoder.embed, encoder.input):
        module.requires_grad_(False)
    xs, *_ = encoder(torch.randn(2, 60, 20), torch.tensor([60, 41]))
    xs.sum().backward()
    assert all(p.grad is not None for p in encoder.encoders.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_the_output_can_be_viewed_in_any_shape(training):
    encoder, _ = build()
    xs, *_ = encoder.train(training)(torch.randn(2, 60, 20), torch.tensor([60, 41]))
    assert xs.is_contiguous()


@pytest.mark.parametrize("input_layer", ["conv2d", "conv2d8", "linear", None])
@pytest.mark.parametrize("shape", [(2, 60, 19), (2, 60, 21), (2, 60), (2, 1, 60, 20)])
def test_other_features_than_those_it_is_made_for_are_refused(input_layer, shape):
    encoder, _ = build(input_layer=input_layer)
    with pytest.raises(ValueError, match=r"xs_pad is .* takes \[B, T, 20\]: give it"):
        encoder(torch.randn(shape), torch.tensor([60, 60]))
