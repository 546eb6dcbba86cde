"""The profile: the SRU++ paper's table, and any ESPnet encoder beside it."""

import contextlib
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

from espnet_srupp import profile as module
from espnet_srupp.compat import TooShortUttError
from espnet_srupp.profile import Part, build_encoder, profile, table

CONF = Path(__file__).parents[1] / "conf" / "librispeech"
SIZES = dict(output_size=8, hidden_size=8, attention_size=4, num_blocks=2, embed_size=4)


def profile_config(name, **encoder_conf):
    config = yaml.safe_load((CONF / name).read_text())
    config["encoder_conf"] |= encoder_conf
    encoder, input_size = build_encoder(config)
    assert input_size == 80
    return profile(encoder, input_size, 1000)


def test_srupp_has_the_papers_parameters_and_flops():
    total, *_ = profile_config("train_asr_srupp.yaml")
    assert total.parameters == pytest.approx(81.5e6, rel=0.005)
    assert total.flops == pytest.approx(62.0e9, rel=0.02)


def test_conformer_has_the_papers_parameters_and_flops():
    # the paper's Conformer is of 2021, when this was the only relative position
    total, *_ = profile_config("train_asr_conformer.yaml", rel_pos_type="legacy")
    assert total.parameters == pytest.approx(83.2e6, rel=0.005)
    assert total.flops == pytest.approx(64.3e9, rel=0.02)


class Toy(nn.Module):
    """An encoder whose operations are easy to count."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(1, 2, 3)
        self.encoders = nn.ModuleList(
            nn.ModuleDict({"w": nn.Linear(6, 6)}) for _ in "ab"
        )
        self.frozen = nn.Linear(6, 6).requires_grad_(False)

    def forward(self, xs_pad, ilens):
        x = self.embed(xs_pad[:, None])  # (1, 2, T - 2, 6)
        for layer in self.encoders:
            x = layer["w"](x)
        return nn.functional.scaled_dot_product_attention(x, x, x), ilens, None


def test_counts_convolutions_products_and_attention_by_hand():
    T = 12
    convolution = 2 * 9 * 2 * T * 6
    products = 2 * 2 * 2 * T * 6 * 6
    attention = 2 * 2 * 2 * T * T * 6
    assert profile(Toy(), 8, T + 2) == [
        Part("", 20 + 84, convolution + products + attention),
        Part("embed", 20, convolution),
        Part("encoders", 84, products),
        Part("encoders.w", 84, products),
        Part("frozen", 0, 0),
    ]


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 6))

    def forward(self, xs_pad, ilens):
        assert ilens.device == xs_pad.device == self.embed[0].weight.device
        return self.embed(xs_pad), ilens, None


@pytest.mark.parametrize("encoder", [Toy, Tokens])
def test_an_encoder_is_run_where_it_is(encoder):
    assert profile(encoder().to("meta"), 8, 14) == profile(encoder(), 8, 14)


def test_an_embedding_of_something_else_than_frames_takes_no_tokens():
    encoder = Toy()
    encoder.languages = nn.Embedding(9, 6)
    assert profile(encoder, 8, 14)[0].parameters == 20 + 84 + 54


def test_modules_below_three_levels_are_in_those_above_them_alone():
    encoder = Toy()
    encoder.a = nn.ModuleDict({"b": nn.ModuleDict({"c": nn.Sequential()})})
    encoder.a["b"]["c"].add_module("d", nn.Linear(6, 6))
    assert profile(encoder, 8, 14)[-1] == Part("a.b.c", 42, 0)


def test_conditioning_on_a_ctc_needs_no_vocabulary():
    conf = SIZES | {"interctc_layer_idx": [1], "interctc_use_conditioning": True}
    encoder, input_size = build_encoder({"encoder": "srupp", "encoder_conf": conf})
    assert profile(encoder, input_size, 50)[0].flops > 0


@pytest.mark.parametrize("name", ["srupp", "transformer"])
def test_an_encoder_that_embeds_tokens_is_counted(name):
    sizes = SIZES if name == "srupp" else {"output_size": 8}
    conf = sizes | {"input_layer": "embed"}
    config = {"encoder": name, "encoder_conf": conf, "input_size": 100}
    total, *_ = profile(*build_encoder(config), 50)
    assert total.parameters > 0 and total.flops > 0


def test_an_empty_conf_is_that_of_the_defaults():
    config = {"encoder": "transformer", "encoder_conf": None, "frontend_conf": None}
    encoder, input_size = build_encoder(config)
    assert encoder.output_size() == 256 and input_size == 80


def test_the_values_per_frame_that_a_config_gives_are_taken():
    config = {"encoder": "srupp", "encoder_conf": SIZES, "input_size": 40}
    assert build_encoder(config)[1] == 40


def test_what_a_config_names_and_leaves_empty_is_not_built():
    config = {"encoder": "srupp", "encoder_conf": SIZES, "input_size": 40}
    assert build_encoder(config | {"frontend": None, "preencoder": None})[1] == 40


def test_table_leaves_out_what_is_too_small_to_matter():
    total = Part("", 10_000_000, 5_000_000_000)
    parts = [Part("a.b", 10_000, 0), Part("c", 9_999, 4_999_999)]
    parts.append(Part("d", 0, 5_000_000))
    assert table([total, *parts]).splitlines()[1:] == [
        "  b                                       0.01      0.00",
        "d                                         0.00      0.01",
        "total                                    10.00      5.00",
    ]


@pytest.mark.parametrize("frames", [50, 3], ids=["enough", "too-few"])
@pytest.mark.parametrize("training", [True, False])
def test_the_encoder_stays_as_it_was(training, frames):
    conf = {"interctc_layer_idx": [1], "interctc_use_conditioning": True}
    encoder, input_size = build_encoder(
        {"encoder": "srupp", "encoder_conf": SIZES | conf}
    )
    # as where it is not to be trained further
    encoder.train(training).embed.eval()
    modes = [module.training for module in encoder.modules()]
    with contextlib.nullcontext() if frames > 3 else pytest.raises(TooShortUttError):
        profile(encoder, input_size, frames)
    assert [module.training for module in encoder.modules()] == modes
    assert encoder.interctc_use_conditioning


def test_nothing_is_kept_for_a_backward_pass():
    encoder, input_size = build_encoder({"encoder": "srupp", "encoder_conf": SIZES})
    kept = []
    hooks = torch.autograd.graph.saved_tensors_hooks(kept.append, lambda _: None)
    with hooks:
        encoder(torch.zeros(1, 100, input_size), torch.tensor([100]))
        assert kept
        kept.clear()
        assert profile(encoder, input_size, 100)[0].flops > 0
    assert not kept


def test_features_of_a_preencoder_are_those_of_the_encoder():
    conf = {"input_size": 80, "output_size": 20}
    encoder, input_size = build_encoder(
        {"preencoder": "linear", "preencoder_conf": conf}
        | {"encoder": "srupp", "encoder_conf": SIZES}
    )
    assert input_size == 20
    assert profile(encoder, input_size, 50)[0].parameters > 0


def test_a_part_counts_what_has_its_name_alone():
    encoder, input_size = build_encoder({"encoder": "srupp", "encoder_conf": SIZES})
    (part,) = (p for p in profile(encoder, input_size, 50) if p.name == "input")
    # and not input_norm
    assert part.parameters == module.count_parameters(encoder.input)
