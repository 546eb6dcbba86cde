"""Outputs of intermediate layers, for a CTC on each and conditioning by it."""

import pytest
import torch
from data.small_encoder import build

from espnet_srupp.encoder import SRUppEncoder


@pytest.mark.parametrize("interctc_layer_idx", [[0, 1], [1, 2], [1, "1"]])
def test_interctc_of_a_layer_that_has_no_successor_is_refused(interctc_layer_idx):
    with pytest.raises(AssertionError, match="outside of 1 to 1"):
        SRUppEncoder(20, num_blocks=2, interctc_layer_idx=interctc_layer_idx)


def test_intermediate_outputs_do_not_disturb_the_last_one():
    encoder, _ = build()
    other, _ = build(interctc_layer_idx=[1, 2])
    other.load_state_dict(encoder.state_dict())
    batch = torch.randn(2, 60, 20), torch.tensor([60, 41])
    expected, _, _ = encoder.eval()(*batch)
    (found, outs), _, _ = other.eval()(*batch)
    torch.testing.assert_close(found, expected)
    assert [i for i, _ in outs] == [1, 2]
    # they come before the outputs of all layers, where both are asked for
    encoder, _ = build(interctc_layer_idx=[2])
    (_, outs), _, _ = encoder(*batch, return_all_hs=True)
    assert [i for i, _ in outs] == [2]


def test_intermediate_layers_may_be_named_in_any_order_and_again():
    encoder, _ = build(interctc_layer_idx=[2, 1, 2])
    (_, outs), _, _ = encoder.eval()(torch.randn(1, 60, 20), torch.tensor([60]))
    assert [i for i, _ in outs] == [1, 2]


def test_conditioning_reaches_the_output():
    encoder, kwargs = build(interctc_layer_idx=[1], interctc_use_conditioning=True)
    encoder.eval()
    batch = torch.randn(1, 60, 20), torch.tensor([60])
    (before, _), _, _ = encoder(*batch, **kwargs)
    encoder.conditioning_layer.bias.data += 5
    (after, _), _, _ = encoder(*batch, **kwargs)
    assert (after - before).abs().max() > 1e-2


def test_conditioning_without_a_ctc_is_told():
    encoder, kwargs = build(interctc_layer_idx=[1], interctc_use_conditioning=True)
    batch = torch.randn(1, 60, 20), torch.tensor([60])
    with pytest.raises(ValueError, match="this task does not give its encoder: leave"):
        encoder(*batch)
    encoder.conditioning_layer = None
    with pytest.raises(ValueError, match="this task does not give its encoder: leave"):
        encoder(*batch, **kwargs)


def test_conditioning_adds_what_it_makes_of_the_posteriors():
    encoder, kwargs = build(interctc_layer_idx=[1], interctc_use_conditioning=True)
    first, second, _ = encoder.eval().encoders
    seen = []
    first.register_forward_hook(lambda *call: seen.append(call[-1]))
    second.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    batch = torch.randn(1, 60, 20), torch.tensor([60])
    (_, ((_, out),)), _, _ = encoder(*batch, **kwargs)
    posteriors = kwargs["ctc"].ctc_lo(out).softmax(-1)
    added = encoder.conditioning_output(encoder.conditioning_layer(posteriors))
    torch.testing.assert_close(seen[1], seen[0] + added.transpose(0, 1))


def test_all_hidden_states_end_with_the_output():
    encoder, _ = build()
    encoder.eval()
    projected = []
    encoder.output.register_forward_hook(lambda *call: projected.append(call))
    batch = torch.randn(2, 60, 20), torch.tensor([60, 41])
    (xs, states), _, _ = encoder(*batch, return_all_hs=True)
    assert len(states) == len(projected) == 3
    torch.testing.assert_close(states[-1], xs)
    torch.testing.assert_close(encoder(*batch)[0], xs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_ctc_under_autocast_gets_frames_in_float32(dtype):
    encoder, _ = build(interctc_layer_idx=[1])
    batch = torch.randn(2, 40, 20), torch.tensor([40, 30])
    with torch.autocast("cpu", dtype):
        (xs, ((_, inner),)), _, _ = encoder(*batch)
    assert xs.dtype == inner.dtype == torch.float32


def test_a_list_that_changes_later_changes_no_intermediate_layer():
    given = [1]
    encoder, _ = build(interctc_layer_idx=given)
    given.append(2)
    assert encoder.interctc_layer_idx == [1]
