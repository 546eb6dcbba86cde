"""No NaN and no Inf from any finite input, in any type; drawn by hypothesis."""

import functools
from unittest import mock

import pytest
import torch
from espnet2.asr.frontend.default import DefaultFrontend
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.recurrence import recurrence, tiles
from espnet_srupp.subsampling import CONVOLUTIONS, shortest_input

FEATURES = 20
HOP = 32
SAMPLES = 40 * HOP
HALF = [torch.float16, torch.bfloat16]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
quick = settings(derandomize=True, database=None, deadline=None, max_examples=30)


def wave(kind, samples, generator):
    """A waveform (samples,) in float32, as a file may hold it."""
    noise = torch.rand(samples, generator=generator) * 2 - 1
    return {
        "noise": lambda: noise,
        "digital silence": lambda: torch.zeros(samples),
        "constant": lambda: torch.full((samples,), 0.5),
        "clipped": lambda: noise.sign(),
        "scaled by 1e4": lambda: noise * 1e4,
        "16 bits as numbers": lambda: (noise * 32768).round(),
        "denormal": lambda: noise * 1e-40,
        "one impulse": lambda: torch.eye(1, samples)[0],
    }[kind]()


WAVES = [
    *("noise", "digital silence", "constant", "clipped", "scaled by 1e4"),
    *("16 bits as numbers", "denormal", "one impulse"),
]


@functools.cache
def frontend():
    return DefaultFrontend(fs=8000, n_fft=128, hop_length=HOP, n_mels=FEATURES)


@st.composite
def speech(draw, input_layer):
    """Log-mel features (B, T, F) and lengths; one utterance at least is long enough."""
    shortest = shortest_input(input_layer)
    kinds = draw(st.lists(st.sampled_from(WAVES), min_size=1, max_size=4))
    frames = draw(st.integers(shortest, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    waves = [wave(kind, SAMPLES, generator) for kind in kinds]
    samples = torch.full((len(waves),), SAMPLES)
    features, _ = frontend()(torch.stack(waves), samples)
    features, lengths = features[:, :frames], torch.full((len(waves),), frames)
    shorter = st.integers(0, frames) | st.sampled_from([0, 1, frames])
    lengths[1:] = torch.tensor([draw(shorter) for _ in kinds[1:]], dtype=torch.int64)
    return features, lengths


@st.composite
def cases(draw):
    """An encoder with some of its parameters at an extreme, and a batch for it."""
    input_layer = draw(st.sampled_from(["conv2d", "conv2d8", "linear", None]))
    convolves = input_layer in CONVOLUTIONS
    torch.manual_seed(0)
    made = SRUppEncoder(
        FEATURES,
        hidden_size=16,
        attention_size=8,
        num_blocks=3,
        embed_size=8,
        input_layer=input_layer,
        output_size=draw(st.sampled_from([8, None])),
        attention_heads=draw(st.sampled_from([1, 2])),
        bidirectional=draw(st.booleans()),
        separable_subsampling=convolves and draw(st.booleans()),
        attention_interval=draw(st.sampled_from([1, 2])),
        query_norm=draw(st.booleans()),
        stack_norm=draw(st.booleans()),
        layer_pooling=draw(st.sampled_from([[], [1, 2, 3]])),
    ).eval()
    extreme = st.sampled_from([None, 0.0, 1.0, -1.0, 1e4, -1e4, 6e4, -6e4, 1e-7])
    alpha = st.sampled_from([None, 1.0, -1.0, 1e2, -1e2, 1e4, -1e4, 6e4, 1e-7])
    with torch.no_grad():
        for layer in made.encoders:
            drawn = {layer.v: draw(extreme), layer.b: draw(extreme)}
            if layer.attention.attention:
                drawn[layer.attention.alpha] = draw(alpha)
            for parameter, value in drawn.items():
                if value is not None:
                    parameter.fill_(value)
    return made, *draw(speech(input_layer))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", HALF, ids=str)
@given(case=cases(), rows=st.sampled_from([8, tiles.ROWS]))
@quick
def test_autocast_is_finite_forward(device, dtype, case, rows):
    made, features, lengths = case
    tiled = mock.patch.object(tiles, "ROWS", rows)
    with torch.autocast(device, dtype), torch.no_grad(), tiled:
        xs, olens, _ = made.to(device)(features.to(device), lengths.to(device))
    assert xs.isfinite().all()
    assert xs.shape[1] == olens.max()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", HALF, ids=str)
@given(case=cases(), rows=st.sampled_from([8, tiles.ROWS]))
@quick
def test_half_precision_is_finite(device, dtype, case, rows):
    made, features, lengths = case
    made = made.to(device, dtype)
    with torch.no_grad(), mock.patch.object(tiles, "ROWS", rows):
        xs, _, _ = made(features.to(device, dtype), lengths.to(device))
    assert xs.dtype == dtype and xs.isfinite().all()


@given(case=cases())
@quick
def test_gradients_are_finite(case):
    made, features, lengths = case
    xs, _, _ = made.train()(features, lengths)
    made.zero_grad()
    xs.square().mean().backward()
    assert xs.isfinite().all()
    assert all(p.grad.isfinite().all() for p in made.parameters() if p.grad is not None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@given(case=cases(), seed=st.integers(0, 99), bad=st.sampled_from(["nan", "inf"]))
@quick
def test_nan_of_one_utterance_stays_there(device, dtype, case, seed, bad):
    made, features, lengths = case
    made, lengths = made.to(device), lengths.to(device)
    generator = torch.Generator().manual_seed(seed)
    spoilt = features.clone()
    frame = int(torch.randint(len(features[0]), (), generator=generator))
    spoilt[0, frame] = float(bad)
    half = dtype != torch.float32
    with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=half):
        good, _, _ = made(features.to(device), lengths)
        xs, _, _ = made(spoilt.to(device), lengths)
    assert torch.equal(xs[1:], good[1:])


@pytest.mark.parametrize("device", DEVICES)
@given(
    T=st.integers(0, 9),
    B=st.integers(0, 3),
    width=st.integers(1, 5),
    bidirectional=st.booleans(),
    dtype=st.sampled_from([*HALF, torch.float32, torch.float64]),
    u=st.sampled_from([0.0, 1e-40, 1.0, 1e4, 6e4]),
    gates=st.sampled_from([0.0, 1.0, 1e4, 1e30]),
    seed=st.integers(0, 99),
)
@settings(quick, max_examples=100)
def test_the_recurrence_is_finite(
    device, T, B, width, bidirectional, dtype, u, gates, seed
):
    generator = torch.Generator().manual_seed(seed)
    D = 2 * width
    sizes = (T, B, 3, D), (T, B, D), (2, D), (2, D), (B, D)
    values = [torch.randn(size, generator=generator).clamp(-1, 1) for size in sizes]
    for value, scale in zip(values, (u, u, gates, gates, u), strict=True):
        value *= scale
    half = [value.to(device, dtype) for value in values[:2]]
    rest = [value.to(device) for value in values[2:]]
    lengths = torch.randint(T + 1, (B,), generator=generator).to(device)
    h, c_last = recurrence(*half, *rest, lengths, bidirectional=bidirectional)
    assert h.isfinite().all() and c_last.isfinite().all()
    # both are means of what comes in, never more than the largest of it
    assert B * T == 0 or h.abs().max() <= max(t.abs().max() for t in (*half, rest[2]))
