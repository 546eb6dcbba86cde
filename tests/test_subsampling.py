"""Subsampling: ESPnet's geometry, and exact lengths for each utterance."""

from importlib import import_module

import pytest
import torch
from torch import nn

from espnet_srupp import subsampling as tiling
from espnet_srupp.compat import TooShortUttError
from espnet_srupp.subsampling import (
    CONVOLUTIONS,
    Conv2dSubsampling,
    input_module,
    output_length,
    shortest_input,
)

ESPNET = import_module(TooShortUttError.__module__)
ALL = pytest.mark.parametrize("input_layer", CONVOLUTIONS)
BOTH = pytest.mark.parametrize("separable", [False, True], ids=["full", "separable"])


@pytest.mark.parametrize(
    "input_layer, n, expected",
    [
        ("conv2d1", 100, 96),
        ("conv2d2", 100, 47),
        ("conv2d2", 1000, 497),
        ("conv2d", 98, 23),
        ("conv2d", 100, 24),
        ("conv2d", 1000, 249),
        ("conv2d6", 100, 15),
        ("conv2d6", 1000, 165),
        ("conv2d8", 100, 11),
        ("conv2d8", 1000, 124),
        ("linear", 100, 100),
        (None, 0, 0),
    ],
)
def test_lengths_are_those_measured_with_espnet(input_layer, n, expected):
    assert output_length(n, input_layer) == expected


@ALL
@BOTH
def test_lengths_are_those_of_the_module(input_layer, separable):
    module = Conv2dSubsampling(20, 2, input_layer, separable)
    shortest = shortest_input(input_layer)
    lengths = torch.arange(0, shortest + 40)
    formula = output_length(lengths, input_layer)
    assert formula.tolist() == [output_length(n, input_layer) for n in lengths.tolist()]
    assert formula[:shortest].eq(0).all() and formula[shortest] == 1
    for n in range(shortest, len(lengths)):
        assert module(torch.randn(1, n, 20)).shape == (1, formula[n], 2)


@ALL
def test_shortest_input_is_espnets_limit(input_layer):
    subsampling = getattr(ESPNET, input_layer.replace("conv2d", "Conv2dSubsampling"))
    module = subsampling(20, 2, 0.0)
    limit = shortest_input(input_layer)
    assert ESPNET.check_short_utt(module, limit)[0] is False
    assert ESPNET.check_short_utt(module, limit - 1) == (True, limit)


@ALL
def test_output_equals_espnets(input_layer):
    subsampling = getattr(ESPNET, input_layer.replace("conv2d", "Conv2dSubsampling"))
    theirs = subsampling(20, 8, 0.0, pos_enc=nn.Identity())
    ours = Conv2dSubsampling(20, 8, input_layer)
    ours.conv.load_state_dict(theirs.conv.state_dict())
    linear = [m for m in theirs.modules() if isinstance(m, nn.Linear)]
    ours.linear.load_state_dict(linear[0].state_dict())
    xs_pad = torch.randn(2, 50, 20)
    torch.testing.assert_close(ours(xs_pad), theirs(xs_pad, None)[0])


@ALL
def test_separable_convolutions_are_products_of_their_parts(input_layer):
    separable = Conv2dSubsampling(20, 8, input_layer, separable=True)
    full = Conv2dSubsampling(20, 8, input_layer)
    full.linear.load_state_dict(separable.linear.state_dict())
    first, *parts = [m for m in separable.conv if isinstance(m, nn.Conv2d)]
    target, *products = [m for m in full.conv if isinstance(m, nn.Conv2d)]
    target.load_state_dict(first.state_dict())
    pairs = zip(parts[::2], parts[1::2], products, strict=True)
    for depthwise, pointwise, product in pairs:
        product.weight.data = pointwise.weight * depthwise.weight[:, 0]
        product.bias.data = pointwise.weight[:, :, 0, 0] @ depthwise.bias
        product.bias.data += pointwise.bias
    xs_pad = torch.randn(2, 50, 20)
    torch.testing.assert_close(separable(xs_pad), full(xs_pad))


@ALL
@BOTH
def test_inference_gives_what_training_gives(input_layer, separable):
    module = Conv2dSubsampling(20, 8, input_layer, separable).double()
    xs_pad = torch.randn(2, 50, 20, dtype=torch.float64)
    expected = module(xs_pad)
    with torch.no_grad():
        torch.testing.assert_close(module(xs_pad), expected)


@ALL
@BOTH
def test_gradients_under_autocast_are_near_those_of_double_precision(
    input_layer, separable
):
    module = Conv2dSubsampling(20, 8, input_layer, separable)
    for parameter in module.conv.parameters():
        # no ReLU's input near 0, where rounding would choose its side
        parameter.data.abs_()
    xs_pad = torch.rand(2, 50, 20, requires_grad=True)
    tensors = [xs_pad, *module.parameters()]
    with torch.autocast("cpu", torch.bfloat16):
        half = torch.autograd.grad(module(xs_pad).float().square().mean(), tensors)
    module, xs_pad = module.double(), xs_pad.detach().double().requires_grad_()
    tensors = [xs_pad, *module.parameters()]
    exact = torch.autograd.grad(module(xs_pad).square().mean(), tensors)
    for found, wanted in zip(half, exact, strict=True):
        assert (found.double() - wanted).norm() < 0.02 * wanted.norm()


@ALL
@BOTH
def test_frames_of_an_utterance_read_its_own_frames_alone(input_layer, separable):
    module = Conv2dSubsampling(20, 2, input_layer, separable)
    for n in range(shortest_input(input_layer), 40):
        xs_pad = torch.randn(1, 60, 20, requires_grad=True)
        frames = module(xs_pad)[:, : output_length(n, input_layer)]
        (read,) = torch.autograd.grad(frames.sum(), xs_pad)
        assert (read[:, n:] == 0).all()


def test_a_wrapped_linear_layer_is_run():
    """As LoRA's, which need not tell the sizes of the layer within."""

    class Wrapped(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return 2 * self.inner(x)

    module, xs_pad = Conv2dSubsampling(20, 2), torch.randn(1, 60, 20)
    expected = 2 * module(xs_pad)
    module.linear = Wrapped(module.linear)
    torch.testing.assert_close(module(xs_pad), expected)


@pytest.mark.once
@ALL
@BOTH
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7])
def test_tiles_give_what_one_pass_gives(input_layer, rows, separable, monkeypatch):
    module = Conv2dSubsampling(20, 4, input_layer, separable).double()
    for n in range(shortest_input(input_layer), shortest_input(input_layer) + 60):
        xs_pad = torch.randn(2, n, 20, dtype=torch.float64, requires_grad=True)
        monkeypatch.setattr(module, "tile_rows", lambda _: rows)
        tiled = module(xs_pad)
        whole = module.subsample(xs_pad)
        torch.testing.assert_close(tiled, whole)
        weights = torch.randn_like(whole)
        found, wanted = (
            torch.autograd.grad((y * weights).sum(), [xs_pad, *module.parameters()])
            for y in (tiled, whole)
        )
        torch.testing.assert_close(found, wanted)


@ALL
def test_no_tile_is_larger_than_asked(input_layer, monkeypatch):
    module = Conv2dSubsampling(20, 4, input_layer)
    sizes = []
    module.conv[0].register_forward_hook(lambda _, __, y: sizes.append(y.nbytes))
    xs_pad = torch.randn(2, 900, 20)
    module(xs_pad)
    (whole,) = sizes
    sizes.clear()
    monkeypatch.setattr(tiling, "TILE_CPU", whole // 7)
    module(xs_pad)
    # neighbouring tiles share the frames that one output frame reads
    shared = shortest_input(input_layer) * 2 * 4 * 18 * xs_pad.itemsize
    assert len(sizes) >= 7 and max(sizes) <= whole // 7 + shared


@pytest.mark.parametrize(
    "input_layer, xs_pad",
    [
        ("linear", torch.randn(2, 9, 20)),
        ("embed", torch.randint(20, (2, 9))),
    ],
    ids=["linear", "embed"],
)
def test_other_input_layers_keep_the_length(input_layer, xs_pad):
    assert input_module(input_layer, 20, 8, 0.1, -1)(xs_pad).shape == (2, 9, 8)


def test_no_input_layer_keeps_features():
    xs_pad = torch.randn(2, 9, 20)
    assert input_module(None, 20, 8, 0.1, -1)(xs_pad) is xs_pad


def test_padding_idx_stays_zero():
    module = input_module("embed", 20, 8, 0.1, 3)
    assert (module(torch.tensor([[3]])) == 0).all()


def test_unknown_input_layer_names_the_known_ones():
    with pytest.raises(ValueError, match="unknown input_layer: fff; choose .*conv2d6"):
        input_module("fff", 20, 8, 0.1, -1)


def test_too_few_features_name_the_least():
    with pytest.raises(ValueError, match="at least 7 features per frame, not 6"):
        Conv2dSubsampling(6, 2)


@pytest.mark.parametrize("input_layer, name", [("linear", "linear"), (None, "null")])
def test_without_convolutions_none_can_be_separable(input_layer, name):
    with pytest.raises(ValueError, match=f"which input_layer {name} has not"):
        input_module(input_layer, 20, 8, 0.1, -1, separable=True)


def test_a_tile_has_a_frame_at_least(monkeypatch):
    module, xs_pad = Conv2dSubsampling(20, 4), torch.randn(2, 50, 20)
    expected = module(xs_pad)
    monkeypatch.setattr(tiling, "TILE_CPU", 1)
    torch.testing.assert_close(module(xs_pad), expected)


def test_it_tells_shapes_without_numbers():
    module = Conv2dSubsampling(20, 4).to("meta")
    assert module(torch.empty(1, 50, 20, device="meta")).shape == (1, 11, 4)


def test_a_convolution_of_half_precision_has_two_columns_at_least():
    module, widths = Conv2dSubsampling(7, 4), []
    module.conv.register_forward_hook(lambda *call: widths.append(call[-1].shape[-1]))
    x = torch.randn(1, 50, 7)
    expected = module(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = module(x)
    assert widths == [1, 2]
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)
