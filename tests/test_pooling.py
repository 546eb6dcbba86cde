"""Layers on means of frames: what reaches them, and what they add to each frame."""

import math

import pytest
import torch
from data.small_encoder import build

from espnet_srupp.pooling import of_layers, on_means, stacks

T, B, D = 11, 4, 3
LENGTHS = torch.tensor([11, 0, 1, 8])


def cumulative(y, lengths):
    """A stand-in for layers, whose output depends on all frames before."""
    return y.cumsum(0) * lengths[:, None]


@pytest.mark.parametrize("pooling", [2, 3, 4, 20])
def test_each_frame_gets_what_changes_in_the_mean_of_its_neighbours(pooling):
    x = torch.randn(T, B, D, dtype=torch.float64)
    found = on_means(cumulative, x, LENGTHS, pooling)
    for row, n in enumerate(LENGTHS.tolist()):
        groups = list(x[:n, row].split(pooling))
        y = torch.stack([g.mean(0) for g in groups])[:, None] if n else x[:0, :1]
        change = cumulative(y, torch.tensor([len(y)])) - y
        for t in range(n):
            expected = x[t, row] + change[t // pooling, 0]
            torch.testing.assert_close(found[t, row], expected)


def test_a_sum_of_frames_may_be_more_than_float16_holds():
    x = torch.full((T, B, D), 3e4, dtype=torch.float16)
    found = on_means(lambda y, lengths: y, x, LENGTHS, 4)
    real = torch.arange(T)[:, None] < LENGTHS
    assert found.dtype == torch.float16 and (found[real] == 3e4).all()


def test_no_utterance_is_no_frame():
    x = torch.randn(T, 0, D)
    assert on_means(cumulative, x, LENGTHS[:0], 2).shape == (T, 0, D)


def test_one_frame_is_its_own_mean():
    x = torch.randn(T, B, D)
    found = on_means(cumulative, x, LENGTHS, 1)
    torch.testing.assert_close(found, cumulative(x, LENGTHS), rtol=0, atol=0)


def test_layers_on_the_same_frames_are_one_stack():
    x = torch.randn(T, B, D, dtype=torch.float64)
    one_by_one = x
    for _ in range(3):
        one_by_one = on_means(cumulative, one_by_one, LENGTHS, 2)

    def three(y, lengths):
        for _ in range(3):
            y = cumulative(y, lengths)
        return y

    found = on_means(three, x, LENGTHS, 2)
    real = torch.arange(T)[:, None] < LENGTHS
    torch.testing.assert_close(found[real], one_by_one[real])


@pytest.mark.parametrize("frames", [T, T + 1])
def test_padded_frames_are_not_read_and_the_input_stays(frames):
    x = torch.randn(frames, B, D)
    padded = torch.arange(frames)[:, None] >= LENGTHS
    poisoned = x.masked_fill(padded[..., None], math.nan)
    given = poisoned.clone()
    found = on_means(cumulative, poisoned, LENGTHS, 2)
    expected = on_means(cumulative, x, LENGTHS, 2)
    torch.testing.assert_close(found[~padded], expected[~padded], rtol=0, atol=0)
    torch.testing.assert_close(poisoned, given, rtol=0, atol=0, equal_nan=True)


def test_gradcheck():
    x = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: on_means(cumulative, x, LENGTHS, 3), x)


@pytest.mark.parametrize(
    "pooling, ends, expected",
    [
        ([1], [], [(0, 1, 1)]),
        ([1, 1], [], [(0, 1, 1), (1, 2, 1)]),
        ([1, 2, 2, 1], [], [(0, 1, 1), (1, 3, 2), (3, 4, 1)]),
        ([2, 2, 4, 4], [], [(0, 2, 2), (2, 4, 4)]),
        ([1, 2, 2, 1], [2], [(0, 1, 1), (1, 2, 2), (2, 3, 2), (3, 4, 1)]),
        ([2, 2], [1, 2], [(0, 1, 2), (1, 2, 2)]),
    ],
)
def test_stacks_are_layers_on_the_same_frames_up_to_a_wanted_output(
    pooling, ends, expected
):
    assert stacks(pooling, ends) == expected


def test_a_list_that_changes_later_changes_no_pooling():
    given = [1, 2]
    pooling = of_layers(given, 2)
    given[1] = 3
    assert pooling == [1, 2]


def test_a_layer_of_the_encoder_runs_on_as_many_frames_as_it_is_told():
    encoder, _ = build(layer_pooling=[1, 3, 2])
    seen = []
    for layer in encoder.encoders:
        layer.register_forward_pre_hook(
            lambda _, args: seen.append((len(args[0]), args[1].tolist()))
        )
    out, olens, _ = encoder(torch.randn(2, 103, 20), torch.tensor([103, 40]))
    assert seen == [(25, [25, 9]), (9, [9, 3]), (13, [13, 5])]
    assert out.shape[1] == 25 and olens.tolist() == [25, 9]


def test_outputs_of_pooled_layers_are_those_of_an_encoder_that_ends_there():
    encoder, _ = build(layer_pooling=[2, 2, 2], stack_norm=False)
    batch = torch.randn(2, 60, 20), torch.tensor([60, 41])
    (last, outs), _, _ = encoder.eval()(*batch, return_all_hs=True)
    torch.testing.assert_close(outs[-1], last, rtol=0, atol=0)
    for number, expected in enumerate(outs, start=1):
        shorter, _ = build(
            num_blocks=number, layer_pooling=[2] * number, stack_norm=False
        )
        shorter.load_state_dict(encoder.state_dict(), strict=False)
        torch.testing.assert_close(shorter.eval()(*batch)[0], expected)
