"""Which frames of a padded batch are real."""

import torch

from espnet_srupp.padding import cut


def test_a_batch_without_padding_is_passed_on_as_it_is():
    xs_pad = torch.randn(2, 30, 4)
    found, padded = cut(xs_pad, torch.tensor([30, 30]), "linear")
    assert found.data_ptr() == xs_pad.data_ptr() and not padded


def test_what_lies_beyond_an_utterance_is_zero_and_beyond_all_of_them_cut_off():
    xs_pad = torch.randn(2, 30, 4)
    found, padded = cut(xs_pad, torch.tensor([20, 25]), "linear")
    expected = xs_pad[:, :25].clone()
    expected[0, 20:] = 0
    assert padded and torch.equal(found, expected)
