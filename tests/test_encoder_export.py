"""A program that torch.export makes of the encoder serves other batches and lengths."""

import pytest
import torch
from data.small_encoder import build
from torch.export import Dim

pytestmark = pytest.mark.once


def check(options, ilens, dynamic_shapes, others):
    """Exports for a batch of `ilens` frames and compares on one of `others`."""
    encoder, _ = build(**options)
    encoder.eval()
    example, batch = (
        (torch.randn(len(lengths), max(lengths), 20), torch.tensor(lengths))
        for lengths in (ilens, others)
    )
    with torch.no_grad():
        program = torch.export.export(encoder, example, dynamic_shapes=dynamic_shapes)
        torch.testing.assert_close(program.module()(*batch), encoder(*batch))


@pytest.mark.parametrize("layer_pooling", [[], [1, 2, 3]], ids=str)
def test_any_batch_and_length(layer_pooling):
    # torch.export asks for two means or more
    B, T = Dim("B"), Dim("T", min=60 if layer_pooling else 11)
    shapes = {"xs_pad": {0: B, 1: T}, "ilens": {0: B}}
    check({"layer_pooling": layer_pooling}, [90, 41], shapes, [133, 40, 80])


@pytest.mark.parametrize("attention_heads", [1, 2])
def test_one_utterance_of_any_length(attention_heads):
    options = {"input_layer": "conv2d8", "attention_heads": attention_heads}
    # torch.export cannot tell of fewer that they are more than one frame
    shapes = {"xs_pad": {1: Dim("T", min=40)}, "ilens": {}}
    check(options, [90], shapes, [133])


@pytest.mark.parametrize(
    "options", [{"input_layer": "conv2d6"}, {"layer_pooling": [1, 2, 3]}], ids=str
)
def test_one_utterance_where_torch_finds_the_bounds_of_the_length(options):
    check(options, [90], {"xs_pad": {1: Dim.DYNAMIC}, "ilens": {}}, [133])


def test_any_batch_where_torch_finds_the_bounds_of_the_length():
    B = {0: Dim.DYNAMIC}
    shapes = {"xs_pad": {1: Dim.DYNAMIC, **B}, "ilens": B}
    check({"input_layer": "conv2d6"}, [90, 41], shapes, [133, 40, 80])
