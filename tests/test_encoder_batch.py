"""Every utterance is encoded as if it were alone, whatever lies beside it."""

import math

import pytest
import torch
from data.small_encoder import VARIANTS, build
from espnet2.asr.espnet_model import ErrorCalculator
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from espnet_srupp import softmax
from espnet_srupp.compat import TooShortUttError
from espnet_srupp.encoder import SRUppEncoder

HALF = pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
INPUT_LAYERS = ["conv2d", "conv2d1", "conv2d2", "conv2d6", "conv2d8", "linear", None]


def assert_alone_equals_batched(encoder, xs_pad, ilens, **kwargs):
    encoder.eval()
    with torch.no_grad():
        batched, olens, _ = encoder(xs_pad, ilens, **kwargs)
        batched = batched[0] if isinstance(batched, tuple) else batched
        assert batched.shape[1] == olens.max()
        for i, n in enumerate(ilens.tolist()):
            if olens[i] > 0:
                alone, olen, _ = encoder(
                    xs_pad[i : i + 1, :n], ilens[i : i + 1], **kwargs
                )
                alone = alone[0] if isinstance(alone, tuple) else alone
                assert olen.tolist() == [olens[i]]
                found = batched[i, : olens[i]]
                torch.testing.assert_close(found, alone[0], rtol=1e-5, atol=1e-5)


def test_espnets_padding_invariance():
    # espnet/test/espnet2/asr/encoder/padding_invariance.py, of 202609 and later
    torch.manual_seed(0)
    encoder = SRUppEncoder(
        40,
        output_size=32,
        hidden_size=64,
        attention_size=32,
        attention_heads=2,
        num_blocks=2,
        embed_size=32,
        input_layer="conv2d",
    )
    feats = torch.randn(2, 163, 40)
    feats[1, 120:] = 0
    assert_alone_equals_batched(encoder, feats, torch.tensor([163, 120]))


@VARIANTS
def test_an_utterance_alone_equals_itself_in_a_batch(options):
    encoder, kwargs = build(**options)
    xs_pad, ilens = torch.randn(5, 103, 20), torch.tensor([103, 98, 7, 45, 3])
    assert_alone_equals_batched(encoder, xs_pad, ilens, **kwargs)


@pytest.mark.parametrize("input_layer", INPUT_LAYERS)
def test_no_input_layer_depends_on_the_batch(input_layer):
    encoder, _ = build(input_layer=input_layer)
    xs_pad, ilens = torch.randn(5, 64, 20), torch.tensor([64, 63, 62, 45, 17])
    assert_alone_equals_batched(encoder, xs_pad, ilens)


def test_nothing_that_pads_an_utterance_is_read():
    encoder, _ = build(dropout_rate=0.0)
    ilens = torch.tensor([60, 41, 3])
    xs_pad = torch.randn(3, 60, 20)
    padded = torch.arange(60) >= ilens[:, None]
    results = []
    for value in (0.0, math.nan):
        filled = xs_pad.masked_fill(padded[..., None], value).requires_grad_()
        encoder.zero_grad()
        out, _, _ = encoder(filled, ilens)
        out.sum().backward()
        results.append([out, filled.grad, *[p.grad for p in encoder.parameters()]])
    for zero, nan in zip(*results, strict=True):
        assert nan.isfinite().all()
        torch.testing.assert_close(nan, zero, rtol=0, atol=0)


@HALF
def test_batch_neighbours_of_nan_change_nothing(half):
    encoder, _ = build(dropout_rate=0.0)
    ilens = torch.tensor([60, 41, 50])
    xs_pad = torch.randn(3, 60, 20)
    results = []
    for value in (1.0, math.nan):
        filled = xs_pad.clone()
        filled[0] = filled[2] = value
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            out, olens, _ = encoder(filled.requires_grad_(), ilens)
        (gradient,) = torch.autograd.grad(out[1, : olens[1]].sum(), filled)
        results.append((out[1, : olens[1]], gradient[1]))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_16_bits_on_a_cpu_never_see_nan(dtype):
    encoder, _ = build()
    xs_pad, ilens = torch.randn(3, 60, 20), torch.tensor([60, 41, 50])
    xs_pad[1, 20, 3], xs_pad[2, 0, 0] = math.nan, math.inf
    given = []
    encoder.embed.register_forward_pre_hook(lambda _, args: given.extend(args))
    with torch.autocast("cpu", dtype):
        encoder.eval()(xs_pad, ilens)
    (seen,) = given
    assert torch.equal(seen[0], xs_pad[0]) and (seen[1:] == 0).all()


@HALF
def test_an_utterance_that_is_not_finite_is_nan_after_every_layer(half):
    encoder, _ = build(num_blocks=3)
    xs_pad, ilens = torch.randn(3, 60, 20), torch.tensor([60, 41, 50])
    xs_pad[1, 20, 3], xs_pad[2, 0, 0] = math.nan, math.inf
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        (xs, outs), _, _ = encoder.eval()(xs_pad, ilens, return_all_hs=True)
    for out in (*outs, xs):
        assert out[0].isfinite().all() and out[1:].isnan().all()


def test_wider_padding_is_trimmed():
    encoder, _ = build()
    encoder.eval()
    xs_pad, ilens = torch.randn(2, 60, 20), torch.tensor([60, 41])
    wide = nn.functional.pad(xs_pad, (0, 0, 0, 40), value=math.nan)
    torch.testing.assert_close(encoder(wide, ilens), encoder(xs_pad, ilens))


def test_espnet_counts_the_ctcs_errors_of_a_batch_as_of_its_utterances_alone():
    tokens = ["<blank>", *"abcdef", "<sos/eos>"]
    calculate = ErrorCalculator(tokens, " ", "<blank>")
    encoder, _ = build()
    ctc = nn.Linear(encoder.output_size(), len(tokens))
    # a frame of zeros is an "a", and others are what their numbers say
    for bias in (encoder.output.bias, ctc.bias):
        nn.init.zeros_(bias)
    ctc.bias.data[1] = 0.1
    ctc.weight.data *= 10
    xs_pad, ilens = torch.randn(3, 200, 20), torch.tensor([200, 97, 30])
    ys_pad = torch.randint(1, 7, (3, 5))

    @torch.no_grad()
    def error(rows):
        xs, _, _ = encoder.eval()(xs_pad[rows, : ilens[rows].max()], ilens[rows])
        return calculate(ctc(xs).argmax(-1), ys_pad[rows], is_ctc=True)

    alone = [error([row]) for row in range(3)]
    assert min(alone) > 0
    assert error([0, 1, 2]) == pytest.approx(sum(alone) / 3)


def test_lengths_beyond_the_input_are_refused():
    encoder, _ = build()
    with pytest.raises(ValueError, match="names 61 frames, but xs_pad has 60"):
        encoder(torch.randn(2, 60, 20), torch.tensor([61, 41]))


@pytest.mark.parametrize("T", [3, 60], ids=["narrow", "wide-padding"])
@pytest.mark.parametrize(
    "input_layer, limit",
    [("conv2d", 7), ("conv2d6", 11), ("conv2d8", 15), ("linear", 1)],
)
def test_too_short_utterances_alone_raise_espnets_error(input_layer, limit, T):
    encoder, _ = build(input_layer=input_layer)
    n = min(T, limit - 1)
    with pytest.raises(TooShortUttError, match=f"has {n} frames") as error:
        encoder(torch.randn(2, T, 20), torch.tensor([n, 0]))
    assert (error.value.actual_size, error.value.limit) == (n, limit)


def test_a_batch_without_utterances_is_too_short():
    encoder, _ = build()
    with pytest.raises(TooShortUttError, match="has 0 frames"):
        encoder(torch.randn(0, 50, 20), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize("input_layer", ["conv2d", "conv2d8", "linear"])
def test_too_short_utterances_beside_others_have_no_frames(input_layer):
    encoder, _ = build(input_layer=input_layer)
    xs_pad = torch.randn(3, 40, 20, requires_grad=True)
    out, olens, _ = encoder(xs_pad, torch.tensor([0, 40, 0]))
    out.sum().backward()
    assert olens[0] == olens[2] == 0 < olens[1]
    assert out.isfinite().all() and xs_pad.grad.isfinite().all()
    assert (xs_pad.grad[0] == 0).all()


def test_masks_stand_for_lengths():
    encoder, _ = build()
    encoder.eval()
    xs_pad, ilens = torch.randn(2, 60, 20), torch.tensor([60, 41])
    masks = torch.arange(60) >= ilens[:, None]
    found = encoder(xs_pad, torch.tensor([60, 60]), masks=masks)
    torch.testing.assert_close(found, encoder(xs_pad, ilens))


@pytest.mark.parametrize("options", [{}, {"layer_pooling": [1, 2, 2]}])
def test_traced_it_serves_other_lengths(options):
    encoder, _ = build(**options)
    encoder.eval().requires_grad_(False)
    xs_pad, full = torch.randn(3, 60, 20), torch.tensor([60, 60, 60])
    traced = torch.jit.trace(
        lambda *given: encoder(*given)[0], (xs_pad, full), check_trace=False
    )
    for T, ilens in ((60, full), (60, [60, 40, 20]), (600, [600, 599]), (33, [33])):
        ilens = torch.as_tensor(ilens)
        xs_pad = torch.randn(len(ilens), T, 20)
        torch.testing.assert_close(traced(xs_pad, ilens), encoder(xs_pad, ilens)[0])


class Frames(torch.nn.Module):
    """The frames alone, as a trace has no None among its outputs."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, xs_pad, ilens):
        return self.encoder(xs_pad, ilens)[0]


def test_traced_with_gradients_it_is_the_graph_that_it_is_without():
    # which torch compares, as for ESPnet's create_graph_in_tensorboard
    encoder, _ = build()
    given = torch.randn(2, 60, 20), torch.tensor([60, 41])
    traced = torch.jit.trace(Frames(encoder.eval()), given)
    torch.testing.assert_close(traced(*given), encoder(*given)[0])
    traced(*given).sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


def test_a_graph_of_its_operators_keeps_the_masks():
    encoder, _ = build()
    encoder.eval().requires_grad_(False)
    xs_pad, ilens = torch.randn(3, 60, 20), torch.tensor([60, 40, 20])
    # of an example without padding
    full = torch.full_like(ilens, 60)
    graph = make_fx(lambda *given: encoder(*given)[0])(xs_pad, full)
    torch.testing.assert_close(graph(xs_pad, ilens), encoder(xs_pad, ilens)[0])


@pytest.mark.once
@pytest.mark.parametrize("tiled", [False, True])
def test_traced_from_a_long_example_it_serves_other_lengths(tiled, monkeypatch):
    # beyond a tile of the convolutions and, where the CPU is faster so, of attention
    monkeypatch.setattr(softmax, "fused", lambda *_: not tiled)
    encoder = SRUppEncoder(80, hidden_size=16, attention_size=8, num_blocks=2)
    encoder.eval().requires_grad_(False)
    given = torch.randn(1, 1100, 80), torch.tensor([1100])
    traced = torch.jit.trace(
        lambda *given: encoder(*given)[0], given, check_trace=False
    )
    for T in (400, 1100, 1120, 2300):
        xs_pad, ilens = torch.randn(1, T, 80), torch.tensor([T])
        torch.testing.assert_close(traced(xs_pad, ilens), encoder(xs_pad, ilens)[0])


def test_token_ids_are_encoded_under_autocast():
    encoder, _ = build(input_layer="embed")
    ids, ilens = torch.randint(20, (3, 60)), torch.tensor([60, 41, 50])
    expected, _, _ = encoder.eval()(ids, ilens)
    with torch.autocast("cpu", torch.bfloat16):
        found, _, _ = encoder(ids, ilens)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.1)


def test_double_precision_stays_under_autocast():
    encoder, _ = build()
    xs_pad, ilens = torch.randn(2, 60, 20).double(), torch.tensor([60, 50])
    with torch.autocast("cpu", torch.bfloat16):
        assert encoder.double()(xs_pad, ilens)[0].dtype == torch.float64
