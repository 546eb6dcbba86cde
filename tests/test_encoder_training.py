"""Training the encoder: gradients, types, seeds and what ESPnet does to weights."""

import pytest
import torch
from data.small_encoder import VARIANTS, build
from espnet2.optimizers.optim_groups import add_optimizer_hooks
from espnet2.torch_utils.initialize import initialize
from torch.autograd.graph import saved_tensors_hooks

from espnet_srupp.compat import GENERATION

INITIALIZATIONS = ["xavier_uniform", "kaiming_normal"]
if GENERATION == 202511:
    INITIALIZATIONS.append("chainer")


@VARIANTS
def test_every_parameter_gets_a_gradient(options):
    encoder, kwargs = build(**options)
    out, _, _ = encoder(torch.randn(2, 60, 20), torch.tensor([60, 41]), **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    out.square().sum().backward()
    missing = [n for n, p in encoder.named_parameters() if p.grad is None]
    assert missing == []
    assert all(p.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.once
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": False, "attention_interval": 2}], ids=str
)
def test_gradcheck(options):
    sizes = dict(hidden_size=4, attention_size=2, embed_size=2, num_blocks=2)
    encoder, _ = build(7, **sizes, **options)
    encoder.double().eval()
    xs_pad = torch.randn(2, 11, 7, dtype=torch.float64, requires_grad=True)

    def encode(xs_pad, *parameters):
        out, olens, _ = encoder(xs_pad, torch.tensor([11, 7]))
        return out[0], out[1, : olens[1]]

    assert torch.autograd.gradcheck(encode, [xs_pad, *encoder.parameters()])


def test_dropped_layers_pass_frames_by():
    encoder, _ = build(layer_drop_rate=1.0, dropout_rate=0.0)
    xs_pad, ilens = torch.randn(1, 60, 20), torch.tensor([60])
    stack_input = encoder.input_norm(encoder.input(encoder.embed(xs_pad)))
    expected = encoder.project(stack_input.transpose(0, 1), ilens, padded=False)
    torch.testing.assert_close(encoder(xs_pad, ilens)[0], expected)
    encoder.eval()
    assert (encoder(xs_pad, ilens)[0] != expected).any()


def test_layers_are_dropped_as_often_as_asked():
    encoder, _ = build(layer_drop_rate=0.25)
    h, x = torch.ones(1), torch.zeros(1)
    kept = torch.cat([encoder.drop_layer(x, h) for _ in range(2000)])
    # of a fair coin of 0.75 the mean is within 5 deviations of it
    assert abs(kept.mean() - 0.75) < 5 * (0.75 * 0.25 / 2000) ** 0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@VARIANTS
def test_autocast_runs_in_half_precision(options, dtype):
    encoder, kwargs = build(**options)
    with torch.autocast("cpu", dtype):
        out, _, _ = encoder(torch.randn(3, 60, 20), torch.tensor([60, 3, 41]), **kwargs)
        out = out[0] if isinstance(out, tuple) else out
    out.float().square().mean().backward()
    assert out.isfinite().all()
    assert all(p.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.parametrize("init", INITIALIZATIONS)
def test_espnets_initialization_leaves_that_of_the_layers(init):
    encoder, _ = build(hidden_size=256, attention_size=64, alpha=0.0)
    initialize(encoder, init)
    for layer in encoder.encoders:
        assert (layer.b[0] == 1).all() and (layer.b[1] == -1).all()
        assert layer.v.abs().max() <= 0.5
        assert layer.attention.alpha.item() == 0
        u = layer.attention(torch.randn(50, 2, 256))
        torch.testing.assert_close(u.std(), torch.tensor(1.0), rtol=0, atol=0.1)
    for norm in (encoder.input_norm, encoder.after_norm):
        assert (norm.weight == 1).all() and (norm.bias == 0).all()


@pytest.mark.parametrize("init", [None, *INITIALIZATIONS])
def test_gates_start_where_they_are_told(init):
    encoder, _ = build(forget_bias=0.5, reset_bias=-2.0, state_weight=0.9)
    if init:
        initialize(encoder, init)
    for layer in encoder.encoders:
        assert (layer.b[0] == 0.5).all() and (layer.b[1] == -2).all()
        assert 0.5 < layer.v.abs().max() <= 0.9


@pytest.mark.parametrize("init", [None, *INITIALIZATIONS])
def test_matrices_are_drawn_by_xaviers_rule_if_told(init):
    encoder, _ = build(hidden_size=256, attention_size=64, fan_in_init=False)
    if init:
        initialize(encoder, init)
    for layer in encoder.encoders:
        for name, module in layer.attention.named_children():
            if isinstance(module, torch.nn.Linear):
                rows, columns = module.weight.shape
                # as one matrix
                rows *= 2 if name in ("key", "value") else 1
                bound = (6 / (rows + columns)) ** 0.5
                assert 0.99 * bound < module.weight.abs().max() <= 1.001 * bound


def test_weight_decay_reaches_matrices_alone():
    encoder, _ = build(num_blocks=1, input_layer="linear")
    add_optimizer_hooks(encoder)
    decayed = {n for n, p in encoder.named_parameters() if not hasattr(p, "_optim")}
    attention = {
        f"encoders.0.attention.{n}" for n in ("query", "key", "value", "output")
    }
    matrices = {"embed.0", "input", "output"} | attention
    assert decayed == {f"{name}.weight" for name in matrices}


def test_same_seed_same_training_step():
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        encoder, _ = build(attention_dropout_rate=0.2, layer_drop_rate=0.3)
        out, _, _ = encoder(torch.randn(2, 60, 20), torch.tensor([60, 41]))
        out.square().sum().backward()
        results.append([out, *[p.grad for p in encoder.parameters()]])
    torch.testing.assert_close(*results, rtol=0, atol=0)


def training_step(gradient_checkpointing):
    """Output and gradients of a step with dropout, and the bytes kept for them."""
    torch.manual_seed(3)
    encoder, _ = build(gradient_checkpointing=gradient_checkpointing, num_blocks=6)
    kept = 0

    def keep(tensor):
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        out, _, _ = encoder(torch.randn(2, 300, 20), torch.tensor([300, 41]))
    out.square().sum().backward()
    return [out, *[p.grad for p in encoder.parameters()]], kept


def test_checkpointing_keeps_less_and_changes_no_bit():
    expected, more = training_step(False)
    found, less = training_step(True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert less < more / 2


def test_every_norm_is_restored_as_a_model_is_initialised():
    encoder, _ = build(input_layer="linear")
    norms = [m for m in encoder.modules() if isinstance(m, torch.nn.LayerNorm)]
    norms = [m for m in norms if all(m is not n for n in encoder.encoders.modules())]
    assert len(norms) == 3
    for norm in norms:
        norm.weight.data.fill_(0.5)
    encoder.espnet_initialization_fn()
    assert all((norm.weight == 1).all() for norm in norms)


def test_conditioning_needs_an_intermediate_output():
    encoder, _ = build(interctc_use_conditioning=True)
    assert not encoder.interctc_use_conditioning
    plain, _ = build()
    assert encoder.state_dict().keys() == plain.state_dict().keys()


def test_inference_has_the_frames_of_training_and_repeats_the_last():
    encoder, _ = build(dropout_rate=0.0)
    # one frame is left of the last utterance
    batch = torch.randn(3, 60, 20), torch.tensor([60, 40, 7])
    with torch.no_grad():
        trained, olens, _ = encoder.train()(*batch)
        found, _, _ = encoder.eval()(*batch)
    assert olens[-1] == 1
    for row, n in enumerate(olens.tolist()):
        torch.testing.assert_close(found[row, :n], trained[row, :n])
        assert (found[row, n:] == found[row, n - 1]).all()


def test_every_layer_gets_each_dropout_rate():
    encoder, _ = build(dropout_rate=0.3, attention_dropout_rate=0.2)
    for layer in encoder.encoders:
        assert layer.dropout_rate == layer.attention.dropout.p == 0.3
        assert layer.attention.attention_dropout_rate == 0.2
