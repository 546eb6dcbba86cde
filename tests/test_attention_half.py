"""Attention in float16 and bfloat16: what they hold, and the ways that are faster."""

import runpy
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

from espnet_srupp import softmax
from espnet_srupp.attention import SRUppAttention


def test_bfloat16_gives_the_gradients_of_float32_however_large_the_queries():
    def gradients(dtype):
        y = module(x.to(dtype))
        return torch.autograd.grad((y * dy).sum(), matrices)

    module = SRUppAttention(64, 32)
    # not alpha, whose gradient is a sum that may be near 0
    matrices = [p for p in module.parameters() if p.dim() == 2]
    module.alpha.data.fill_(0.5)
    module.query.weight.data *= 30
    x, dy = torch.randn(50, 4, 64), torch.randn(50, 4, 3, 64)
    expected = gradients(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(torch.bfloat16)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() < 0.02 * other.norm()


def test_float32_tells_scores_beyond_float16_apart():
    q, k = torch.full((1, 1, 1, 1), 1e3), torch.tensor([70.0, 80.0]).view(1, 1, 2, 1)
    torch.testing.assert_close(
        softmax.attend_plainly(q, k, k, None, k.shape[2], 0.0), k[:, :, 1:]
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tiles_in_half_precision_are_near_a_softmax_in_float32(dtype):
    inputs = [torch.randn(2, 3, 30, 16).to(dtype) for _ in range(3)]
    expected = F.scaled_dot_product_attention(*(y.float() for y in inputs))
    found = softmax.attend_plainly(*inputs, None, 30, 0.0)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.03)


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_beyond_float16_are_finite(sign):
    k = torch.full((1, 1, 3, 4), 200.0, dtype=torch.float16)
    torch.testing.assert_close(
        softmax.attend_plainly(sign * k, k, k, None, k.shape[2], 0.0), k
    )


def test_padded_keys_stay_out_where_scores_are_beyond_float16():
    k = torch.full((1, 1, 3, 4), 200.0, dtype=torch.float16)
    v = torch.randn(1, 1, 3, 4).half()
    keys = torch.tensor([True, False, False])
    a = softmax.attend_plainly(-k, k, v, keys.view(1, 1, 1, -1), k.shape[2], 0.0)
    torch.testing.assert_close(a, v[:, :, :1].expand_as(a))


def test_float16_holds_what_a_large_alpha_makes():
    module = SRUppAttention(8, 4)
    module.alpha.data.fill_(1e3)
    x = torch.randn(9, 2, 8)
    expected = module(x)
    found = module.half()(x.half()).float()
    torch.testing.assert_close(found, expected, rtol=0, atol=0.1)


def test_float16_holds_the_sum_of_large_queries_and_values():
    module = SRUppAttention(8, 4, query_norm=False)
    module.query.weight.data = 4e4 * torch.eye(4, 8)
    module.value.weight.data = torch.eye(4)
    module.alpha.data.fill_(1.0)
    # of one frame, which attends to itself: twice the queries
    x = torch.tensor([1.0, -1, -1, 1, 0, 0, 0, 0]).view(1, 1, 8)
    expected = module(x)
    found = module.half()(x.half()).float()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-2)


def test_an_alpha_beyond_float16_leaves_the_norm_its_signs():
    module = SRUppAttention(8, 2)
    module.alpha.data.fill_(6e4)
    # the norm of two queries makes 1 and -1 of them, so that products are 1.2e5
    module.value.weight.data = 2 * torch.eye(2)
    x = torch.randn(1, 5, 8)
    expected = module(x)
    found = module.half()(x.half()).float()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-2)


def test_padding_loses_against_any_score():
    k, v = (torch.tensor(y).view(1, 1, 2, 1) for y in ([1e3, 0.0], [1.0, 5.0]))
    keys = torch.tensor([True, False])
    out = softmax.attend_plainly(
        -k[:, :, :1], k, v, keys.view(1, 1, 1, -1), k.shape[2], 0.0
    )
    assert out.item() == 1


@pytest.mark.parametrize("tiled", [True, False])
def test_bfloat16_goes_the_way_that_is_faster_on_this_cpu(tiled, monkeypatch):
    monkeypatch.setattr(softmax, "TILED", tiled)
    q = torch.empty(1, 1, 4, 8)
    assert softmax.fused(q.bfloat16(), 0.0) is not tiled
    assert softmax.fused(q, 0.0)


@pytest.mark.parametrize(
    ("dtype", "size", "T", "grad", "major", "expected"),
    [
        (torch.bfloat16, 256, 9000, True, 8, True),
        (torch.float32, 64, 9000, True, 7, True),
        (torch.float16, 416, 400, False, 7, True),
        # of what torch has no kernel
        (torch.bfloat16, 256, 9000, True, 7, False),
        (torch.float64, 64, 9, False, 9, False),
        (torch.bfloat16, 252, 9, False, 9, False),
        # of what it has a slow one
        (torch.bfloat16, 416, 400, True, 9, False),
        (torch.bfloat16, 416, 401, False, 9, False),
        (torch.float32, 416, 400, False, 9, False),
    ],
)
def test_a_gpu_has_sdpa_for_what_it_has_a_fast_kernel_for(
    dtype, size, T, grad, major, expected, monkeypatch
):
    card = SimpleNamespace(major=major)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    with FakeTensorMode(), torch.set_grad_enabled(grad):
        q = torch.empty(1, 1, T, size, dtype=dtype, device="cuda")
        assert softmax.fused(q, 0.1) is expected


@pytest.mark.parametrize(
    ("has", "tiled"),
    [
        ([], False),
        (["avx512_bf16"], True),
        (["bf16"], True),
        (["avx512_bf16", "amx_bf16"], False),
    ],
    ids=str,
)
def test_tiles_are_for_cpus_that_multiply_bfloat16_without_amx(has, tiled, monkeypatch):
    found = dict.fromkeys(has, True)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    assert runpy.run_path(softmax.__file__)["TILED"] is tiled


@pytest.mark.requires_cuda
# on a CPU their errors are 0.12, as scores of -130 have steps of 1, and 0.002
@pytest.mark.parametrize("T", [64, 100, 192])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 0.2), (torch.float16, 0.02)]
)
def test_padding_on_cuda(dtype, tolerance, T):
    """Low scores at lengths that cuDNN gets wrong, and a row without any frame."""
    q, k, v = (torch.randn(3, 2, T, 64).to(dtype) for _ in range(3))
    q, k = 0.1 * q + 1, 4 * k - 16
    keys = torch.arange(T) < torch.tensor([T, 0, T // 2])[:, None]
    results = []
    for device, inputs in (
        ("cpu", (q.float(), k.float(), v.float())),
        ("cuda", (q, k, v)),
    ):
        leaves = [t.to(device).requires_grad_() for t in inputs]
        out = softmax.attend(*leaves, keys.to(device))
        grads = torch.autograd.grad(out, leaves, v.to(out))
        results.append([t.detach().float().cpu() for t in (out, *grads)])
    for expected, actual in zip(*results, strict=True):
        assert actual.isfinite().all()
        assert (actual[1] == 0).all()
        assert (actual - expected).norm() <= tolerance * expected.norm() + 1e-6
