"""A padded batch by buckets of like lengths gives what it gives as a whole."""

import copy
from unittest import mock

import pytest
import torch
from data.small_encoder import VARIANTS, build
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from espnet_srupp import buckets

# one without frames, one too short and two alike, in no order
ILENS = torch.tensor([45, 103, 0, 7, 98, 3, 45])


@pytest.fixture(autouse=True)
def every_length_its_bucket(monkeypatch):
    monkeypatch.setattr(buckets, "WORK", 0)


def batch(dtype=torch.float64):
    torch.manual_seed(1)
    return torch.randn(len(ILENS), 110, 20, dtype=dtype), ILENS


def sizes(encoder, *args, **kwargs):
    """Utterances and frames of the batches that an encoder makes of one."""
    with mock.patch.object(encoder, "encode", wraps=encoder.encode) as spy:
        encoder(*args, **kwargs)
    return [tuple(call.args[0].shape[:2]) for call in spy.call_args_list]


def by_buckets(encoder, *args, **kwargs):
    return encoder(*args, **kwargs)


def as_a_whole(encoder, *args, **kwargs):
    with mock.patch.object(buckets, "serves", return_value=False):
        return encoder(*args, **kwargs)


@given(
    st.lists(st.integers(0, 50), min_size=1).map(lambda n: sorted(n, reverse=True)),
    st.integers(0, 99),
)
def test_buckets_are_as_long_as_their_padding_allows(lengths, cost):
    found = buckets.divide(lengths, cost)
    assert [i for start, end in found for i in range(start, end)] == [
        *range(len(lengths))
    ]
    for start, end in found:
        bucket = lengths[start:end]
        assert sum(bucket[0] - n for n in bucket) <= cost
        if end < len(lengths):
            assert sum(bucket[0] - n for n in lengths[start : end + 1]) > cost


def test_utterances_of_like_lengths_go_together():
    encoder, _ = build()
    xs_pad, ilens = batch(torch.float32)
    # 7 frames are the least that the convolutions take
    assert sizes(encoder, xs_pad, ilens) == [(1, 103), (1, 98), (2, 45), (3, 7)]
    assert sizes(encoder, xs_pad[:1], ilens[:1]) == [(1, 45)]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bucket_begins_where_padding_takes_longer(threads, monkeypatch):
    encoder, _ = build()  # 8 by 4, one frame of 4
    monkeypatch.setattr(buckets, "WORK", 8 * 4 * 15 / threads)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    xs_pad = torch.randn(4, 100, 20)
    # 60 frames, then 61
    assert sizes(encoder, xs_pad, torch.tensor([100, 80, 60, 100])) == [(4, 100)]
    assert sizes(encoder, xs_pad, torch.tensor([100, 80, 59, 100])) == [
        (3, 100),
        (1, 59),
    ]


@VARIANTS
@pytest.mark.parametrize("return_all_hs", [False, True])
def test_inference_has_the_same_frames_and_padding(options, return_all_hs):
    encoder, kwargs = build(**options)
    encoder.double().eval()
    if kwargs:
        kwargs["ctc"].double()
    kwargs["return_all_hs"] = return_all_hs
    with torch.no_grad():
        found = encoder(*batch(), **kwargs)
        expected = as_a_whole(encoder, *batch(), **kwargs)
    torch.testing.assert_close(found, expected)


@VARIANTS
def test_training_has_the_same_frames_and_gradients(options):
    options = {**options, "dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    encoder, kwargs = build(**{**options, "layer_drop_rate": 0.0})
    encoder.double().train()
    if kwargs:
        kwargs["ctc"].double()
    found, expected = [], []
    for run, results in ((by_buckets, found), (as_a_whole, expected)):
        model = copy.deepcopy(encoder)
        xs_pad, ilens = batch()
        xs, olens, _ = run(model, xs_pad.requires_grad_(), ilens, **kwargs)
        outs = [xs] if torch.is_tensor(xs) else [xs[0], *(h for _, h in xs[1])]
        real = torch.arange(outs[0].shape[1]) < olens[:, None]
        loss = sum((i + 2) * h[real].sin().sum() for i, h in enumerate(outs))
        loss.backward()
        results += [olens, *(h[real] for h in outs)]
        results += [{"xs_pad": xs_pad.grad, **grads(model)}]
    torch.testing.assert_close(found, expected)


def grads(model):
    return {name: p.grad for name, p in model.named_parameters()}


def test_same_seed_same_training_step():
    encoder, _ = build(layer_drop_rate=0.3)
    found = []
    for model in (encoder, copy.deepcopy(encoder)):
        args = batch(torch.float32)  # seeds
        xs, _, _ = model.train()(*args)
        xs.sin().sum().backward()
        found.append({"xs": xs, **grads(model)})
    one, other = found
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_token_ids_go_by_buckets_too():
    encoder, _ = build(input_layer="embed")
    encoder.eval()
    tokens = torch.randint(20, (3, 9)), torch.tensor([4, 9, 4])
    assert sizes(encoder, *tokens) == [(1, 9), (2, 4)]
    torch.testing.assert_close(encoder(*tokens), as_a_whole(encoder, *tokens))


def test_who_watches_a_layer_sees_the_batch():
    encoder, _ = build()
    seen = []
    encoder.encoders[1].register_forward_hook(lambda *call: seen.append(call[2].shape))
    encoder(*batch(torch.float32))
    assert seen == [(25, 7, 8)]


def test_who_watches_the_encoder_changes_nothing():
    encoder, _ = build()
    encoder.register_forward_hook(lambda *_: None)
    assert len(sizes(encoder, *batch(torch.float32))) == 4


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_who_traces_gets_a_batch_of_any_lengths():
    encoder, _ = build()
    encoder.eval().requires_grad_(False)
    xs_pad, ilens = batch(torch.float32)
    with torch.no_grad():
        alike = torch.full_like(ilens, 103)
        alike[1] = 60
        traced = torch.jit.trace(lambda *args: encoder(*args)[:2], (xs_pad, alike))
        graph = make_fx(lambda *args: encoder(*args)[:2])(xs_pad[:, :103], alike)
        expected = as_a_whole(encoder, xs_pad, ilens)[:2]
        found = traced(xs_pad, ilens)
        torch.testing.assert_close(found[0][:, :25], expected[0])
        torch.testing.assert_close(found[1], expected[1])
        torch.testing.assert_close(graph(xs_pad[:, :103], ilens), expected)


def test_types_of_16_bits_have_one_batch():
    encoder, _ = build()
    assert len(sizes(encoder.half(), *batch(torch.float16))) == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert len(sizes(encoder.float(), *batch(torch.float32))) == 1


def test_a_layer_is_dropped_for_each_bucket():
    torch.manual_seed(0)
    encoder, _ = build(layer_drop_rate=0.5, dropout_rate=0.0)
    with mock.patch.object(encoder, "drop_layer", wraps=encoder.drop_layer) as spy:
        encoder.train()(*batch(torch.float32))
    assert spy.call_count == 4 * len(encoder.encoders)
