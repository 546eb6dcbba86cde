"""The attention that is shown is the one that the model uses."""

import torch

from espnet_srupp.attention import SRUppAttention
from espnet_srupp.recipe import probe


def test_recorded_weights_are_those_of_the_attention():
    module = SRUppAttention(hidden_size=6, attention_size=4, attention_heads=2)
    found = {}
    module.register_forward_pre_hook(probe.recorder(found, "a"))
    x = torch.randn(5, 1, 6)
    with torch.no_grad():
        module.alpha.fill_(1)
        u = module(x)
        q = module.queries(x)
        a = found["a"] @ module.split(module.value(q))[0]  # (heads, T, d'/heads)
        q = q + a.transpose(0, 1).reshape(q.shape)
        expected = module.output(module.norm(q)).view(u.shape)
    torch.testing.assert_close(u, expected)
    torch.testing.assert_close(found["a"].sum(-1), torch.ones(2, 5))


def test_layers_are_ordered_by_number():
    names = ["decoder.decoders.9.src_attn", "decoder.decoders.10.src_attn"]
    assert max(names, key=probe.order) == names[1]
