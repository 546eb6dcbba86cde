"""The attention of SRU++: its equations, its parameters and how they start."""

import math

import pytest
import torch
import torch.nn.functional as F

from espnet_srupp import softmax
from espnet_srupp.attention import SRUppAttention


@pytest.mark.parametrize("path", ["sdpa", "tiles"])
@pytest.mark.parametrize("whole", [1, 8], ids=["as-many-keys", "a-gpus-keys"])
@pytest.mark.parametrize("query_norm", [True, False], ids=["norm", "papers"])
@pytest.mark.parametrize("heads", [1, 2])
def test_projection_follows_the_equations(heads, query_norm, whole, path, monkeypatch):
    monkeypatch.setattr(softmax, "fused", lambda *_: path == "sdpa")
    monkeypatch.setattr(softmax, "TILE_CPU", 4)
    monkeypatch.setattr(softmax, "WHOLE_CPU", whole)
    T, B, D, E = 11, 3, 10, 8
    module = SRUppAttention(D, E, heads, query_norm=query_norm).double()
    module.alpha.data.fill_(0.7)
    x = torch.randn(T, B, D, dtype=torch.float64)
    lengths = torch.tensor([11, 4, 7])
    weights = [getattr(module, n).weight for n in ("query", "key", "value", "output")]
    wq, wk, wv, wo = weights
    q = x @ wq.T
    if query_norm:
        q = F.layer_norm(q, (E,))
    k, v = q @ wk.T, q @ wv.T
    a = torch.empty_like(q)
    for b, n in enumerate(lengths):
        for s in torch.arange(E).chunk(heads):
            scores = q[:, b, s] @ k[:n, b, s].T / math.sqrt(E / heads)
            a[:, b, s] = scores.softmax(-1) @ v[:n, b, s]
    u = F.layer_norm(q + 0.7 * a, (E,)) @ wo.T
    torch.testing.assert_close(module(x, lengths), u.view(T, B, 3, D))
    one = x[:, :1]  # all of whose frames are real
    torch.testing.assert_close(module(one), module(one, lengths[:1]))


def test_alpha_of_zero_is_the_projection_alone():
    module = SRUppAttention(10, 8, query_norm=False)
    projection = SRUppAttention(10, 8, attention=False)
    projection.load_state_dict(
        {k: v for k, v in module.state_dict().items() if k in projection.state_dict()}
    )
    x = torch.randn(7, 2, 10)
    assert module.alpha.item() == 0
    torch.testing.assert_close(module(x), projection(x), rtol=0, atol=0)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_fresh_projection_has_unit_deviation(scale):
    u = SRUppAttention(512, 64)(scale * torch.randn(50, 4, 512))
    torch.testing.assert_close(u.std(dim=(0, 1, 3)), torch.ones(3), rtol=0, atol=0.1)


def test_it_has_the_matrices_of_the_papers_and_no_biases():
    projection = {"query.weight", "norm.weight", "norm.bias", "output.weight"}
    attention = projection | {"key.weight", "value.weight", "alpha"}
    norm = {"query_norm.weight", "query_norm.bias"}
    assert SRUppAttention(8, 4, attention=False).state_dict().keys() == projection
    assert SRUppAttention(8, 4, query_norm=False).state_dict().keys() == attention
    assert SRUppAttention(8, 4).state_dict().keys() == attention | norm


def test_heads_that_do_not_divide_the_size_are_refused():
    with pytest.raises(ValueError, match="not a multiple"):
        SRUppAttention(10, 8, attention_heads=3)


def test_initialisation_restores_alpha_and_the_norms():
    module = SRUppAttention(8, 4)
    parts = {n: p for n, p in module.named_parameters() if p.dim() == 1}
    before = {n: p.detach().clone() for n, p in parts.items()}
    for p in parts.values():
        p.data.fill_(0.3)
    module.espnet_initialization_fn()
    torch.testing.assert_close(parts, before, rtol=0, atol=0)
