"""A model encodes as ESPnet does, however tiles are cut."""

import pytest
import torch
from data.small_models import CONFIG, ENCODERS, RATE, make, noise
from test_longform_loading import loaded

import espnet_srupp.run  # noqa: F401
from espnet_srupp.longform import model
from espnet_srupp.precision import has_bfloat16


def cut(samples, size):
    return [samples[i : i + size] for i in range(0, len(samples), size)]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("tile", [3, 50, 1000])
def test_encoded_as_by_espnet(tmp_path, monkeypatch, encoder, tile):
    monkeypatch.setattr(model, "TILE", tile)
    recogniser = loaded(make(tmp_path, encoder))
    samples = noise(8000)
    with torch.inference_mode():
        expected, lengths = recogniser.espnet.encode(
            torch.from_numpy(samples)[None], torch.tensor([len(samples)])
        )
        # of a model with an intermediate CTC
        expected = expected[0] if isinstance(expected, tuple) else expected
        xs, _ = recogniser.encode(recogniser.features(cut(samples, 777)))
    assert len(xs) == lengths[0]
    torch.testing.assert_close(xs, expected[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_bfloat16_is_of_the_encoder_alone_and_near_float32(tmp_path, encoder):
    if encoder == "rnn" and torch.__version__ > "2.12" and not has_bfloat16():
        pytest.skip("torch newer than 2.11 has no LSTM in bfloat16 on this CPU")
    exp, samples = make(tmp_path, encoder), noise(8000)
    with torch.inference_mode():
        expected, clock = loaded(exp).encode(loaded(exp).features([samples]))
        recogniser = loaded(exp, dtype=torch.bfloat16)
        features = recogniser.features([samples])
        xs, same = recogniser.encode(features)
    assert features.dtype == xs.dtype == torch.float32 and clock == same
    assert not torch.equal(xs, expected)
    assert (xs - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("rows", [1, 40, 2**20])
def test_log_probs_are_the_ctcs_however_cut(tmp_path, monkeypatch, rows):
    recogniser = loaded(make(tmp_path))
    monkeypatch.setattr(model, "ROWS", rows)
    xs = torch.randn(30, 8)
    with torch.inference_mode():
        tiles = list(recogniser.log_probs(xs))
        expected = recogniser.espnet.ctc.log_softmax(xs[None])[0]
    assert all(tile.numel() <= max(7, rows) for tile in tiles)
    torch.testing.assert_close(torch.cat(tiles), expected)


@pytest.mark.parametrize("encoder", ["srupp", "conformer"])
@pytest.mark.parametrize("samples", [0, 1, 32, 33, 100])
def test_too_short_is_no_frame(tmp_path, encoder, samples):
    with torch.inference_mode():
        recogniser = loaded(make(tmp_path, encoder))
        xs, _ = recogniser.encode(recogniser.features([noise(samples)]))
    assert len(xs) == 0


HOP = 20 / RATE


@pytest.mark.parametrize(
    ("input_layer", "first", "period"),
    [
        # the frame in the middle of those that make up the first one, and half a period
        pytest.param("conv2d", (3 - 2) * HOP, 4 * HOP, id="conv2d"),
        pytest.param("conv2d2", (3 - 1) * HOP, 2 * HOP, id="conv2d2"),
        pytest.param("conv2d6", (5 - 3) * HOP, 6 * HOP, id="conv2d6"),
        pytest.param("linear", -0.5 * HOP, HOP, id="linear"),
    ],
)
@pytest.mark.parametrize("encoder", ["srupp", "conformer"])
def test_frames_lie_where_the_convolutions_put_them(
    tmp_path, encoder, input_layer, first, period
):
    conf = {"output_size": 8, **ENCODERS[encoder], "input_layer": input_layer}
    recogniser = loaded(make(tmp_path, encoder, encoder_conf=conf))
    for samples in (1000, 1020, 1040, 1060):
        with torch.inference_mode():
            _, clock = recogniser.encode(recogniser.features([noise(samples)]))
        assert (clock.first, clock.period) == pytest.approx((first, period))


def test_without_centred_windows_frames_lie_half_a_window_later(tmp_path):
    conf = CONFIG["frontend_conf"] | {"center": False}
    recogniser = loaded(make(tmp_path, frontend_conf=conf))
    with torch.inference_mode():
        _, clock = recogniser.encode(recogniser.features([noise(1000)]))
    expected = ((3 - 2) * HOP + 64 / 2 / RATE, 4 * HOP)
    assert (clock.first, clock.period) == pytest.approx(expected)


def test_frames_of_other_encoders_are_spread_over_the_recording(tmp_path):
    conf = {"output_size": 8, **ENCODERS["rnn"], "subsample": [3]}
    recogniser = loaded(make(tmp_path, "rnn", encoder_conf=conf))
    with torch.inference_mode():
        xs, clock = recogniser.encode(recogniser.features([noise(8000)]))
    assert len(xs) == 134  # of 401
    assert clock.period == pytest.approx(401 / 134 * HOP)
    assert clock.seconds(134) == pytest.approx(8000 / RATE, abs=HOP)
