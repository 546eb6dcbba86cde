"""An utterance of a batch has the features that it has alone."""

import subprocess
import sys

import pytest
import torch
from espnet2.asr.frontend.default import DefaultFrontend
from espnet2.layers.stft import Stft

import espnet_srupp.register  # noqa: F401
from espnet_srupp.mirroring import extend

LENGTHS = [400, 1000, 999, 641, 1000]


def batch(*channels):
    torch.manual_seed(0)
    waves = torch.randn(len(LENGTHS), max(LENGTHS), *channels)
    lengths = torch.tensor(LENGTHS)
    for wave, length in zip(waves, lengths, strict=True):
        wave[length:] = 0
    return waves, lengths


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n_fft", [128, 101])
@pytest.mark.parametrize("channels", [(), (2,)], ids=["mono", "stereo"])
def test_frames_are_those_of_each_alone(channels, n_fft, center):
    stft = Stft(n_fft, hop_length=40, center=center)
    waves, lengths = batch(*channels)
    found, olens = stft(waves, lengths)
    assert found.shape[1] == olens.max()
    for row, length in enumerate(lengths):
        alone, (frames,) = stft(waves[row, None, :length], lengths[row, None])
        assert olens[row] == frames
        torch.testing.assert_close(found[row, :frames], alone[0])
        assert (found[row, frames:] == 0).all()


def test_features_are_those_of_each_alone():
    frontend = DefaultFrontend(fs=8000, n_fft=128, hop_length=40, n_mels=20)
    waves, lengths = batch()
    found, olens = frontend(waves, lengths)
    for row, length in enumerate(lengths):
        alone, _ = frontend(waves[row, None, :length], lengths[row, None])
        torch.testing.assert_close(found[row, : olens[row]], alone[0])


def test_a_batch_may_be_padded_beyond_its_longest():
    stft = Stft(128, hop_length=40)
    waves, lengths = batch()
    expected, olens = stft(waves, lengths)
    found, same = stft(torch.nn.functional.pad(waves, (0, 500)), lengths)
    assert torch.equal(same, olens) and found.shape[1] == 1 + 1500 // 40
    torch.testing.assert_close(found[:, : olens.max()], expected)


def test_waves_without_lengths_are_taken_whole():
    stft = Stft(128, hop_length=40)
    waves, _ = batch()
    found, olens = stft(waves)
    expected, _ = stft(waves, torch.full((len(waves),), waves.shape[1]))
    assert olens is None
    torch.testing.assert_close(found, expected)


def test_one_alone_that_is_too_short_to_be_mirrored_is_refused():
    with pytest.raises(RuntimeError, match="Padding size"):
        Stft(128, hop_length=40)(torch.randn(1, 50), torch.tensor([50]))


def test_mirrored_samples_follow_each_wave():
    waves = torch.tensor([[1.0, 2, 3, 4, 5], [1, 2, 3, 0, 0], [1, 2, 0, 0, 0]])
    found = extend(waves, torch.tensor([5, 3, 2]), 3)
    assert found.tolist() == [
        [1, 2, 3, 4, 5, 4, 3, 2],
        [1, 2, 3, 2, 1, 0, 0, 0],
        [1, 2, 1, 0, 0, 0, 0, 0],
    ]


def test_a_batch_may_be_shorter_than_what_is_mirrored():
    waves = torch.tensor([[1.0, 2], [1, 0]])
    found = extend(waves, torch.tensor([2, 1]), 4)
    assert found.tolist() == [[1, 2, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]


def test_gradients_reach_the_waves():
    waves, lengths = batch()
    waves = waves[:, :50].double().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda w: extend(w, lengths.clamp(max=45), 9), waves
    )


@pytest.mark.parametrize("first", ["espnet2.layers.stft", "espnet_srupp.register"])
def test_it_is_in_place_whatever_is_imported_first(first):
    code = f"""
import {first}
import espnet_srupp.register, espnet2.layers.stft as module
code = module.Stft.forward.__code__.co_filename
assert code.endswith("mirroring.py"), code
"""
    subprocess.run([sys.executable, "-c", code], check=True)
