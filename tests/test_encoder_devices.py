"""The encoder computes on the device of its input, a GPU that is not there included."""

from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from espnet_srupp import padding
from espnet_srupp.encoder import SRUppEncoder

SIZES = {"output_size": 8, "hidden_size": 16, "attention_size": 8, "embed_size": 8}


@pytest.fixture
def gpu():
    """Tensors of "cuda" have shapes and devices alone, which must fit each other."""
    if torch.version.cuda is None:
        pytest.skip("this PyTorch is not built for CUDA")
    card = mock.Mock(major=9)
    with (
        FakeTensorMode(),
        mock.patch("torch.cuda.get_device_properties", return_value=card),
        # a length cannot be read
        mock.patch.object(padding, "bounds", return_value=(40, 50)),
    ):
        yield


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention_size": 264},
        {"layer_pooling": [1, 2, 2, 1]},
        {"layer_drop_rate": 0.5, "attention_dropout_rate": 0.1},
        {"input_layer": "conv2d8", "separable_subsampling": True},
        {"input_layer": "linear", "output_size": None},
        {"input_layer": "embed", "attention_interval": 2},
        {"interctc_layer_idx": [2], "interctc_use_conditioning": True},
    ],
)
def test_nothing_is_made_on_another_device_than_a_gpu(options, grad, gpu):
    with torch.device("cuda"):
        model = SRUppEncoder(80, **{"num_blocks": 4, **SIZES, **options})
        model.conditioning_layer = vocabulary = torch.nn.Linear(8, 8)
        xs_pad = torch.zeros(3, 50, 80)
        if model.input_layer == "embed":
            xs_pad = torch.zeros(3, 50, dtype=torch.int64)
        ilens = torch.tensor([50, 40, 45])
    ctc = mock.Mock(softmax=lambda xs: vocabulary(xs).softmax(-1))
    model.train(grad)
    with (
        mock.patch("torch.cuda.is_available", return_value=True),
        mock.patch("torch.cuda.is_bf16_supported", return_value=True),
    ):
        autocast = torch.autocast("cuda", torch.bfloat16)
    with torch.set_grad_enabled(grad), autocast:
        outs, olens, _ = model(xs_pad, ilens, ctc=ctc)
    outs, *_ = outs if isinstance(outs, tuple) else (outs,)
    assert outs.device.type == olens.device.type == "cuda"
