"""Softmax attention: equal to a plain one, in memory linear in time."""

import math
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from espnet_srupp import softmax
from espnet_srupp.softmax import attend

PATHS = pytest.mark.parametrize("path", ["sdpa", "tiles"])
LENGTHS = torch.tensor([50, 0, 17])


@pytest.fixture
def use(monkeypatch):
    """Chooses a path of `attend`, and tiles small enough for several."""

    def choose(path, tile=16):
        monkeypatch.setattr(softmax, "fused", lambda *_: path == "sdpa")
        for name in ("TILE", "TILE_CPU"):
            monkeypatch.setattr(softmax, name, tile)

    return choose


def qkv(B, H, T, E, dtype=torch.float64):
    return [torch.randn(B, H, T, E, dtype=dtype, requires_grad=True) for _ in range(3)]


def key_mask(lengths, T):
    return torch.arange(T) < lengths[:, None]


def softmax_attention(q, k, v, keys):
    """Row by row and by the book; 0 where no key is real."""
    out = torch.zeros_like(q)
    for b in range(len(q)):
        real = slice(None) if keys is None else keys[b]
        if keys is None or keys[b].any():
            scores = q[b] @ k[b, :, real].transpose(-1, -2) / math.sqrt(q.shape[-1])
            out[b] = scores.softmax(-1) @ v[b, :, real]
    return out


@PATHS
@pytest.mark.parametrize("lengths", [LENGTHS, None], ids=["padded", "all-real"])
@pytest.mark.parametrize("heads, size", [(1, 8), (2, 6), (1, 416)])
def test_attend_equals_softmax(path, lengths, heads, size, use):
    use(path)
    inputs = qkv(3, heads, 50, size)
    keys = None if lengths is None else key_mask(lengths, 50)
    expected = softmax_attention(*inputs, keys)
    gradient = torch.randn_like(expected)
    if keys is not None:
        # what is without a real key counts nowhere
        gradient *= keys.any(1)[:, None, None, None]
    wanted = torch.autograd.grad(expected, inputs, gradient)
    found = attend(*inputs, keys)
    torch.testing.assert_close(found * (gradient != 0), expected)
    torch.testing.assert_close(torch.autograd.grad(found, inputs, gradient), wanted)


@pytest.mark.parametrize("lengths", [LENGTHS, None], ids=["padded", "all-real"])
def test_keys_beyond_the_queries_count_nowhere(lengths, use):
    use("tiles")
    q, k, v = qkv(3, 2, 50, 8)
    keys, more = None, None
    if lengths is not None:
        # a row without a real key takes a mean of all, which may be more
        keys, more = (key_mask(lengths.clamp(min=1), S) for S in (50, 56))
    longer = [F.pad(tensor, (0, 0, 0, 6), value=3.0) for tensor in (k, v)]
    expected, found = attend(q, k, v, keys), attend(q, *longer, more)
    torch.testing.assert_close(found, expected)
    gradient = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (q, k, v), gradient)
    torch.testing.assert_close(torch.autograd.grad(found, (q, k, v), gradient), wanted)


@PATHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_attend_is_finite_without_a_real_key(path, dtype, use):
    use(path)
    inputs = qkv(3, 1, 50, 8, dtype)
    out = attend(*inputs, key_mask(LENGTHS, 50))
    out.sum().backward()
    assert out.dtype == dtype
    assert out.isfinite().all()
    for tensor in inputs:
        assert tensor.grad.isfinite().all()


def test_cudnn_is_not_asked(use, monkeypatch):
    def sdpa(q, *_):
        enabled.append(torch.backends.cuda.cudnn_sdp_enabled())
        return q

    enabled = [torch.backends.cuda.cudnn_sdp_enabled()]
    use("sdpa")
    monkeypatch.setattr(F, "scaled_dot_product_attention", sdpa)
    # not on a CPU, which has no such kernel
    attend(*(tensor.to("meta") for tensor in qkv(3, 1, 50, 8)), None)
    enabled.append(torch.backends.cuda.cudnn_sdp_enabled())
    assert enabled == [True, False, True]


def test_threads_that_attend_at_once_leave_the_choice_of_kernels_as_it_was(
    use, monkeypatch
):
    def sdpa(q, *_):
        enabled.append(torch.backends.cuda.cudnn_sdp_enabled())
        # the other thread comes meanwhile, unless it has to wait
        time.sleep(0.1)
        return q

    enabled = []
    use("sdpa")
    monkeypatch.setattr(F, "scaled_dot_product_attention", sdpa)
    given = [tensor.detach().to("meta") for tensor in qkv(3, 1, 50, 8)]
    threads = [threading.Thread(target=attend, args=(*given, None)) for _ in range(3)]
    before = torch.backends.cuda.cudnn_sdp_enabled()
    for thread in threads:
        thread.start()
        time.sleep(0.03)
    for thread in threads:
        thread.join()
    assert enabled == [False] * 3
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


@PATHS
def test_attend_ignores_what_padded_keys_hold(path, use):
    use(path)
    q, k, v = qkv(3, 1, 50, 8)
    keys = key_mask(LENGTHS, 50)
    padded = ~keys[:, None, :, None]
    expected = attend(q, k, v, keys)
    found = attend(q, k.masked_fill(padded, 1e30), v.masked_fill(padded, 1e30), keys)
    real = keys.any(1)
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=0)


class LargestTensor(TorchDispatchMode):
    """Notes the most numbers that any operator returned in one tensor."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})
        for tensor in out if isinstance(out, tuple) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return out


@pytest.mark.parametrize("dropout_rate", [0.0, 0.1], ids=["no-dropout", "dropout"])
@pytest.mark.parametrize("size", [16, 272, 416])
def test_attend_never_holds_all_scores(size, dropout_rate, monkeypatch):
    monkeypatch.setattr(softmax, "TILE_CPU", 64)
    T = 1500
    inputs = qkv(1, 1, T, size, torch.float32)
    with LargestTensor() as largest:
        attend(
            *inputs, key_mask(torch.tensor([T - 9]), T), dropout_rate
        ).sum().backward()
    assert largest.numel <= max(64, size) * T


def test_scores_of_many_heads_are_not_kept(use):
    use("tiles", tile=64)
    for heads, most in ((1, 60 * 60), (8, 8 * 60 * 8)):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda _: None):
            attend(*qkv(1, heads, 60, 8, torch.float32), None)
        assert max(tensor.numel() for tensor in kept) == most


def test_few_rows_at_inference_have_large_tiles_on_a_gpu():
    def tile(B, heads, dtype=torch.bfloat16):
        return softmax.tile_of(torch.empty(B, heads, 9, 8, device="meta", dtype=dtype))

    assert tile(1, 1) == softmax.TILE
    with torch.no_grad():
        assert tile(1, 1, torch.float32) == tile(1, 1, torch.float16) == softmax.TILE
        assert [tile(1, 1), tile(2, 1), tile(1, 3)] == [8192, 4096, 2730]
        assert tile(32, 1) == tile(8, 4) == softmax.TILE


@pytest.mark.parametrize("T", [16, 50], ids=["one-tile", "tiles"])
def test_tiles_drop_the_same_weights_forward_and_backward(T, use):
    use("tiles")
    inputs = qkv(2, 1, T, 8)
    keys = key_mask(torch.tensor([T, T // 2]), T)
    torch.manual_seed(1)
    attend(*inputs, keys, 0.5).square().sum().backward()
    copies = [tensor.detach().requires_grad_() for tensor in inputs]
    q, k, v = copies
    torch.manual_seed(1)
    out = [
        softmax.attend_plainly(tile, k, v, keys[:, None, None], k.shape[2], 0.5)
        for tile in q.split(16, dim=2)
    ]
    torch.cat(out, 2).square().sum().backward()
    for tensor, copy in zip(inputs, copies, strict=True):
        torch.testing.assert_close(tensor.grad, copy.grad)


def test_dropout_keeps_the_mean(use):
    use("tiles")
    q, k, v = (tensor.detach() for tensor in qkv(1, 1, 20, 4))
    mean = sum(attend(q, k, v, None, 0.5) for _ in range(2000)) / 2000
    expected = attend(q, k, v, None)
    torch.testing.assert_close(mean, expected, rtol=0, atol=0.1)
    assert (attend(q, k, v, None, 0.5) - expected).abs().max() > 0.1


@pytest.mark.requires_cuda
@pytest.mark.parametrize("size", [64, 256, 272, 416])
def test_attend_on_cuda_equals_softmax_in_linear_memory(size):
    T = 32768
    q, k, v = (t.detach().cuda() for t in qkv(1, 1, T, size, torch.float32))
    # what padding holds, and a mean over all frames, would be seen
    v[:, :, T // 2 :] += 1
    keys = key_mask(torch.tensor([T // 2]), T).cuda()
    inputs = [t.bfloat16().requires_grad_() for t in (q, k, v)]
    torch.cuda.reset_peak_memory_stats()
    out = attend(*inputs, keys)
    out.sum().backward()
    with torch.no_grad():
        inferred = attend(*inputs, keys)
    assert torch.cuda.max_memory_allocated() < T * T * 2
    rows = [t.detach().float() for t in inputs]
    expected = softmax_attention(rows[0][:, :, :64], *rows[1:], keys)
    for found in (out, inferred):
        error = found[:, :, :64].float() - expected
        assert error.norm() < 0.05 * expected.norm()


def test_sdpa_drops_weights_too(use):
    use("sdpa")
    inputs = qkv(1, 1, 20, 4)
    once, again = (attend(*inputs, None, 0.5) for _ in range(2))
    assert (once != again).any()
