"""What torch.compile makes of the encoder, or of its layers, does as they do."""

from functools import partial
from unittest import mock

import pytest
import torch
from data.small_encoder import build
from torch import distributed
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.parallel import DistributedDataParallel

from espnet_srupp import softmax
from espnet_srupp.layer import compiled


@pytest.mark.once
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_compiles_without_a_graph_break(gradient_checkpointing):
    encoder, _ = build(
        num_blocks=3,
        attention_interval=2,
        layer_pooling=[1, 2, 2],
        dropout_rate=0.0,
        gradient_checkpointing=gradient_checkpointing,
    )
    batch = torch.randn(2, 60, 20), torch.tensor([60, 41])
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*batch), encoder(*batch))
    compiled(*batch)[0].sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


@pytest.fixture
def graphs(monkeypatch):
    """Layers are compiled without the wait for machine code; counts their graphs."""
    counter = CompileCounterWithBackend("aot_eager")
    whole = partial(torch.compile, fullgraph=True, backend=counter)
    monkeypatch.setattr(torch, "compile", whole)
    compiled.cache_clear()
    torch.compiler.reset()
    yield counter
    compiled.cache_clear()


def assert_same_step(encoder, plain, frames, rows=2, shorter=9):
    """Output and gradients of both, each utterance so much shorter than the last."""
    batch = torch.randn(rows, frames, 20), frames - shorter * torch.arange(rows)
    results = []
    for model in (encoder, plain):
        model.zero_grad()
        out, _, _ = model(*batch)
        out.square().sum().backward()
        results.append([out, *(p.grad for p in model.parameters())])
    torch.testing.assert_close(*results)


@pytest.mark.once
@pytest.mark.parametrize(
    "options",
    [{}, {"attention_interval": 2, "layer_pooling": [1, 2, 2]}]
    + [{"gradient_checkpointing": True}],
    ids=str,
)
@pytest.mark.parametrize("tiles", [False, True], ids=["sdpa", "tiles"])
def test_layers_are_compiled_once_for_all_lengths(tiles, options, graphs, monkeypatch):
    if tiles:  # as wide attention on a GPU, whose keys are a multiple of 8
        monkeypatch.setattr(softmax, "fused", lambda *_: False)
        monkeypatch.setattr(softmax, "WHOLE_CPU", softmax.WHOLE)
    options = {"dropout_rate": 0.0, **options}
    encoder, _ = build(compile_layers=True, **options)
    plain, _ = build(**options)
    plain.load_state_dict(encoder.state_dict())
    assert_same_step(encoder, plain, 60)
    made = graphs.frame_count
    assert made > 0
    # 131 give 32 frames of the layers; the last batch has no padding
    for frames, rows, shorter in ((100, 2, 9), (61, 4, 9), (131, 2, 9), (300, 3, 0)):
        assert_same_step(encoder, plain, frames, rows, shorter)
    assert graphs.frame_count == made


def test_layers_are_not_compiled_for_inference(graphs):
    encoder, _ = build(compile_layers=True)
    encoder.eval()(torch.randn(2, 60, 20), torch.tensor([60, 41]))
    assert graphs.frame_count == 0


@pytest.mark.once
def test_compiled_layers_train_with_ddp(graphs, tmp_path, monkeypatch):
    # as wide attention on a GPU
    monkeypatch.setattr(softmax, "fused", lambda *_: False)
    meeting = f"file://{tmp_path}/meeting"
    distributed.init_process_group("gloo", meeting, rank=0, world_size=1)

    def train():
        encoder, _ = build(compile_layers=True)
        # so that a layer's gradients are sent in several parts
        parallel = DistributedDataParallel(encoder, bucket_cap_mb=1e-4)
        for frames in (60, 90):
            out, _, _ = parallel(torch.randn(2, frames, 20), torch.tensor([frames, 41]))
            out.square().sum().backward()
        return [p.grad is not None for p in encoder.parameters()]

    try:
        assert all(train())
    finally:
        distributed.destroy_process_group()


@pytest.mark.once
def test_machine_code_of_layers_does_as_they_do():
    encoder, _ = build(compile_layers=True, dropout_rate=0.0, num_blocks=2)
    plain, _ = build(dropout_rate=0.0, num_blocks=2)
    plain.load_state_dict(encoder.state_dict())
    compiled.cache_clear()
    assert_same_step(encoder, plain, 60)


def test_compiled_layers_call_their_hooks():
    encoder, _ = build(compile_layers=True, dropout_rate=0.0, num_blocks=2)
    xs_pad, ilens = torch.randn(2, 60, 20), torch.tensor([60, 47])
    compiled.cache_clear()
    calls = []
    with mock.patch("torch.compile", partial(torch.compile, backend="eager")):
        encoder(xs_pad, ilens)
        for layer, name in zip(encoder.encoders, "ab", strict=True):
            layer.register_forward_hook(lambda *_, name=name: calls.append(name))
            encoder(xs_pad, ilens)
    compiled.cache_clear()
    assert calls == ["a", "a", "b"]
