"""Features of tiles are those of the whole recording."""

import numpy as np
import pytest
import torch
from espnet2.asr.frontend.default import DefaultFrontend
from espnet2.layers.global_mvn import GlobalMVN
from espnet2.layers.utterance_mvn import UtteranceMVN

from espnet_srupp.longform.features import features

N_FFT, HOP = 64, 20
CASES = {
    "hop divides": {"n_fft": 64, "hop_length": 16},
    "hop does not": {"n_fft": 64, "hop_length": 20},
    "short window": {"n_fft": 64, "hop_length": 20, "win_length": 50},
    "hop of a window": {"n_fft": 64, "hop_length": 64},
    "hop beyond it": {"n_fft": 64, "hop_length": 80},
    "not centred": {"n_fft": 64, "hop_length": 20, "center": False},
}


def frontend(**options):
    return DefaultFrontend(fs=8000, n_mels=8, **options).eval()


def noise(samples, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, samples).astype(np.float32)


def whole(module, normalize, samples):
    """What ESPnet makes of all samples at once."""
    with torch.no_grad():
        lengths = torch.tensor([len(samples)])
        xs, lengths = module(torch.from_numpy(samples)[None], lengths)
        if normalize is not None:
            xs, lengths = normalize(xs, lengths)
    return xs[0, : lengths[0]]


def cut(samples, size):
    return [samples[i : i + size] for i in range(0, len(samples), size)]


def tiled(module, normalize, blocks, tile):
    with torch.inference_mode():
        return features(module, normalize, blocks, tile).clone()


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("tile", [1, 2, 7, 16, 1000])
def test_tiles_do_not_show(options, tile):
    module = frontend(**options)
    hop = options["hop_length"]
    about_a_tile = [tile, tile + 1, tile + 64 // hop + 2]
    lengths = [hop * n + d for n in about_a_tile for d in (-1, 0, 1) if n < 60]
    for samples in [33, 63, 64, 65, 100, 1999, *lengths]:
        if samples < (33 if module.stft.center else 64):
            continue
        audio = noise(samples)
        expected = whole(module, None, audio)
        made = tiled(module, None, cut(audio, 37 if samples % 2 else samples), tile)
        torch.testing.assert_close(made, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("samples", "center"),
    [(0, True), (1, True), (32, True), (0, False), (1, False), (63, False)],
)
def test_too_few_samples_for_the_stft_make_no_frames(samples, center):
    module = frontend(n_fft=64, hop_length=20, center=center)
    assert tiled(module, None, [noise(samples)], 8).shape == (0, 8)
    assert tiled(module, None, [], 8).shape == (0, 8)


@pytest.fixture
def global_mvn(tmp_path):
    xs = np.random.default_rng(1).normal(-3, 2, (50, 8))
    np.savez(
        tmp_path / "stats.npz",
        **{"count": len(xs), "sum": xs.sum(0), "sum_square": (xs**2).sum(0)},
    )
    return GlobalMVN(tmp_path / "stats.npz")


@pytest.mark.parametrize("tile", [5, 64, 1000])
def test_global_normalisation_is_that_of_espnet(global_mvn, tile):
    module, audio = frontend(n_fft=64, hop_length=20), noise(5000)
    made = tiled(module, global_mvn, cut(audio, 999), tile)
    expected = whole(module, global_mvn, audio)
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("tile", [5, 64, 1000])
@pytest.mark.parametrize("means", [True, False])
@pytest.mark.parametrize("variances", [True, False])
def test_normalisation_by_utterance_knows_all_tiles(means, variances, tile):
    module, audio = frontend(n_fft=64, hop_length=20), noise(5000)
    # loud and soft, so that a tile differs from the whole
    audio *= np.linspace(0.001, 1, len(audio), dtype=np.float32)
    normalize = UtteranceMVN(norm_means=means, norm_vars=variances)
    made = tiled(module, normalize, cut(audio, 999), tile)
    expected = whole(module, normalize, audio)
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-5)


def test_digital_silence_makes_finite_features():
    module = frontend(n_fft=64, hop_length=20)
    normalize = UtteranceMVN(norm_means=True, norm_vars=True)
    made = tiled(module, normalize, [np.zeros(5000, np.float32)], 16)
    assert made.isfinite().all()


def test_no_mask_of_the_whole_recording_is_made(monkeypatch):
    module = frontend(n_fft=64, hop_length=20)
    seen = []
    forward = module.logmel.forward
    monkeypatch.setattr(
        module.logmel, "forward", lambda x, n: seen.append(x.shape[1]) or forward(x, n)
    )
    tiled(module, None, [noise(20_000)], 32)
    assert sum(seen) > 1000 and max(seen) <= 32 + 2 * (64 // 20 + 1) + 1


def test_no_features_are_on_the_device_too():
    module = frontend(n_fft=64, hop_length=20).to("meta")
    made = features(module, None, [], 8)
    assert made.shape == (0, 8) and made.device.type == "meta"
