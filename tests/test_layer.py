"""One layer: its equations, its gradients, its dropout, its number types."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.nn.utils import prune
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from espnet_srupp.attention import SRUppAttention
from espnet_srupp.layer import SRUppLayer
from espnet_srupp.recurrence import recurrence

T, B, D = 9, 3, 6
LENGTHS = torch.tensor([9, 0, 5])


def frames(dtype=torch.float64, **kwargs):
    return torch.randn(T, B, D, dtype=dtype, **kwargs)


def srupp_layer(alpha=0.7, **kwargs):
    layer = SRUppLayer(D, 4, **kwargs)
    if layer.attention.attention:
        layer.attention.alpha.data.fill_(alpha)
    return layer.double()


def walk(u, x, v, b):
    """SRU's equations over the frames of one utterance, (T, 3, D) and (T, D)."""
    c = torch.zeros_like(x[0])
    h = []
    for (u_f, u_r, u_c), x_t in zip(u, x, strict=True):
        f = torch.sigmoid(u_f + v[0] * c + b[0])
        r = torch.sigmoid(u_r + v[1] * c + b[1])
        c = f * c + (1 - f) * u_c
        h.append(r * c + (1 - r) * x_t)
    return torch.stack(h)


@pytest.mark.parametrize("bidirectional", [True, False], ids=["both-ways", "one-way"])
def test_with_alpha_of_zero_it_is_an_sru_with_projection(bidirectional):
    layer = srupp_layer(alpha=0.0, bidirectional=bidirectional)
    x = frames()
    q = F.layer_norm(x @ layer.attention.query.weight.T, (4,))
    q = F.layer_norm(q, (4,))
    u = (q @ layer.attention.output.weight.T).view(T, B, 3, D)
    expected = torch.zeros_like(x)
    ahead = slice(0, D // 2 if bidirectional else D)
    back = slice(ahead.stop, D)
    for i, n in enumerate(LENGTHS):
        arguments = u[:n, i], x[:n, i], layer.v, layer.b
        if n > 0:
            expected[:n, i, ahead] = walk(*arguments)[:, ahead]
            reverse = [t.flip(0) for t in arguments[:2]]
            expected[:n, i, back] = walk(*reverse, *arguments[2:]).flip(0)[:, back]
    torch.testing.assert_close(layer(x, LENGTHS), expected)


def test_attention_makes_a_difference():
    layer, x = srupp_layer(), frames()
    with_attention = layer(x)
    layer.attention.alpha.data.zero_()
    assert (with_attention - layer(x)).abs().mean() > 1e-3


@pytest.mark.once
@pytest.mark.parametrize("attention", [True, False], ids=["attention", "no-attention"])
@pytest.mark.parametrize("bidirectional", [True, False], ids=["both-ways", "one-way"])
def test_gradcheck(bidirectional, attention):
    layer = srupp_layer(bidirectional=bidirectional, attention=attention)
    inputs = [frames(requires_grad=True), *layer.parameters()]
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, LENGTHS), inputs)


def test_padded_frames_are_zero_and_change_nothing():
    layer, x = srupp_layer(), frames()
    h = layer(x, LENGTHS)
    padded = torch.arange(T)[:, None] >= LENGTHS
    assert (h[padded] == 0).all()
    other = x.masked_fill(padded[..., None], 1e6)
    torch.testing.assert_close(layer(other, LENGTHS), h, rtol=0, atol=0)


def test_state_dropout_is_one_mask_for_all_frames():
    layer = srupp_layer(dropout_rate=0.5)
    layer.attention.dropout.p = 0.0
    # reset gates wide open: h is the masked state
    layer.b.data[1] = 50.0
    x = frames()
    dropped = layer(x) == 0
    assert 0 < dropped.sum() < dropped.numel()
    assert (dropped == dropped[0]).all()
    # and another one for each row of the batch
    assert (dropped[0] != dropped[0, 0]).any()
    assert not (layer.eval()(x) == 0).any()


def test_autocast_does_not_round_the_scale_of_state_dropout(monkeypatch):
    masks = []

    def spy(*args, mask_c, **options):
        masks.append(mask_c)
        return recurrence(*args, mask_c=mask_c, **options)

    monkeypatch.setattr("espnet_srupp.layer.recurrence", spy)
    layer = SRUppLayer(64, 8, dropout_rate=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        # the second time of frames of half precision
        layer(layer(torch.randn(5, 3, 64)))
    assert len(masks) == 2
    for mask in masks:
        assert set(mask.unique().tolist()) == {0.0, (1 / torch.tensor(0.9)).item()}


@pytest.mark.parametrize("which", ["projection", "state", "attention"])
def test_each_dropout_acts_in_training_only(which):
    layer = srupp_layer(attention_dropout_rate=0.5 * (which == "attention"))
    x = frames()
    layer.attention.dropout.p = 0.5 * (which == "projection")
    layer.dropout_rate = 0.5 * (which == "state")
    assert (layer(x) != layer(x)).any()
    layer.eval()
    torch.testing.assert_close(layer(x), layer(x), rtol=0, atol=0)


def double_by_hook(layer):
    layer.attention.output.register_forward_hook(lambda *call: 2 * call[-1])


def double_by_hook_before(layer):
    layer.attention.output.register_forward_pre_hook(lambda _, args: (2 * args[0],))


def zero_by_pruning(layer):
    prune.identity(layer.attention.output, "weight")
    layer.attention.output.weight_mask.zero_()


def drop_in_attention(layer):
    layer.attention.dropout.p = 1.0
    layer.attention.dropout.train()


def drop_all_states(layer):
    layer.train()
    layer.attention.dropout.eval()
    layer.dropout_rate = 1.0


def double_by_hook_of_attention(layer):
    layer.attention.register_forward_hook(lambda *call: 2 * call[-1])


def double_by_hook_of_dropout(layer):
    layer.attention.dropout.register_forward_hook(lambda *call: 2 * call[-1])


def replace_by_one_with_bias(layer):
    layer.attention.output = nn.Linear(*layer.attention.output.weight.shape[::-1])
    layer.attention.output.to(torch.float64)


def double_by_instance(layer):
    output = layer.attention.output
    forward = output.forward
    output.forward = lambda x: 2 * forward(x)


def replace_dropout(layer):
    layer.attention.dropout = nn.Hardtanh(-0.1, 0.1).eval()


class Doubled(SRUppAttention):
    def forward(self, x, lengths=None):
        return 2 * super().forward(x, lengths)


def double_by_subclass(layer):
    layer.attention.__class__ = Doubled


@pytest.mark.parametrize(
    "change",
    [
        *(double_by_hook, double_by_hook_before, zero_by_pruning),
        *(drop_in_attention, replace_dropout, replace_by_one_with_bias),
        *(double_by_instance, double_by_subclass, drop_all_states),
        *(double_by_hook_of_attention, double_by_hook_of_dropout),
    ],
)
def test_what_is_done_to_its_modules_counts_at_any_length(change):
    # so long that without it U would be made tile by tile
    x = torch.randn(600, 1, D, dtype=torch.float64)
    layer = srupp_layer().eval()
    with torch.no_grad():
        assert layer.in_tiles(x)
        before = layer(x)
        change(layer)
        changed = layer(x)
    assert (changed != before).any()
    torch.testing.assert_close(changed, layer(x))


@pytest.mark.parametrize(
    "register", [register_module_forward_hook, register_module_forward_pre_hook]
)
def test_hooks_of_all_modules_are_called_at_any_length(register):
    x, layer, called = torch.randn(600, 1, D), srupp_layer().float().eval(), []
    hook = register(lambda module, *_: called.append(module))
    with torch.no_grad():
        layer(x)
    hook.remove()
    assert layer.attention.output in called


def test_a_mode_of_functions_sees_all_of_a_layer_at_any_length():
    x, layer = torch.randn(600, 1, D), srupp_layer().float().eval()
    seen, counts = [], []

    class Seen(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    for grad in (True, False):
        seen.clear()
        with torch.set_grad_enabled(grad), Seen():
            layer(x)
        counts.append(seen.count(F.linear))
    assert counts[0] == counts[1] > 0
    with torch.no_grad(), torch.device("cpu"):
        assert layer.in_tiles(x)


def test_operations_are_counted_at_any_length():
    # the threads' own would not be seen
    x, layer, found = torch.randn(600, 1, D), srupp_layer().float().eval(), []
    for grad in (True, False):
        with torch.set_grad_enabled(grad), FlopCounterMode(display=False) as counter:
            layer(x)
        found.append(counter.get_total_flops())
    assert found[0] == found[1] > 600 * D * 3 * 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rate", [0.0, 0.1], ids=["no-dropout", "dropout"])
def test_autocast_runs_in_half_precision(dtype, rate):
    layer = srupp_layer(dropout_rate=rate, attention_dropout_rate=rate).float()
    x = frames(torch.float32, requires_grad=True)
    with torch.autocast("cpu", dtype):
        h = layer(x, LENGTHS)
    h.float().square().sum().backward()
    assert h.dtype == dtype
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    if rate == 0:
        torch.testing.assert_close(h.float(), layer(x, LENGTHS), rtol=0, atol=0.05)


def test_gates_start_remembering_and_carrying():
    layer = SRUppLayer(512, 64)
    assert (layer.b[0] == 1).all() and (layer.b[1] == -1).all()
    assert 0.4 < layer.v.max() <= 0.5 and -0.5 <= layer.v.min() < -0.4


def test_odd_width_is_refused_only_both_ways():
    with pytest.raises(ValueError, match="choose an even one"):
        SRUppLayer(7, 4)
    SRUppLayer(7, 4, bidirectional=False)


def test_parameters_may_be_freed_after_use_as_fsdp_does():
    layer = srupp_layer()
    layer(frames()).sum().backward()
    with torch.no_grad():
        layer.eval()(frames())
        # more frames are computed in tiles
        more = frames().repeat(2, 1, 1)
        assert layer.in_tiles(more)
        layer(more)
    assert all(each.untyped_storage().resizable() for each in layer.parameters())


@pytest.mark.requires_cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_on_cuda_is_near_float32(dtype):
    layer = SRUppLayer(64, 16).cuda()
    # drawn on the CPU: with some draws alpha's gradient all but cancels
    x = torch.randn(50, 3, 64).cuda()
    lengths = torch.tensor([50, 3, 21], device="cuda")
    results = []
    for enabled in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cuda", dtype, enabled=enabled):
            h = layer(x, lengths)
        h.float().square().mean().backward()
        grads = [p.grad.clone() for p in layer.parameters()]
        layer.zero_grad()
        results.append([h.detach().float(), *grads])
    for expected, actual in zip(*results, strict=True):
        assert actual.isfinite().all()
        assert (actual - expected).norm() <= 0.05 * expected.norm() + 1e-6
