"""A small encoder for tests, and the options that change what it does."""

import pytest
from espnet2.asr.ctc import CTC
from torch import nn

from espnet_srupp.encoder import SRUppEncoder

SMALL = dict(output_size=6, hidden_size=8, attention_size=4, num_blocks=3, embed_size=5)
VARIANTS = pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="default"),
        pytest.param({"bidirectional": False}, id="one-way"),
        pytest.param({"attention_heads": 2}, id="heads"),
        pytest.param({"attention_interval": 2}, id="interval"),
        pytest.param({"query_norm": False}, id="papers-queries"),
        pytest.param({"stack_norm": False}, id="papers-stack"),
        pytest.param({"attention_dropout_rate": 0.3}, id="attention-dropout"),
        pytest.param({"layer_drop_rate": 0.9}, id="layer-drop"),
        pytest.param({"gradient_checkpointing": True}, id="checkpointing"),
        pytest.param({"layer_pooling": [1, 2, 2]}, id="pooling"),
        pytest.param({"output_size": None}, id="no-output"),
        pytest.param({"interctc_layer_idx": [1, 2]}, id="interctc"),
        pytest.param(
            {"interctc_layer_idx": [1], "interctc_use_conditioning": True},
            id="conditioning",
        ),
        pytest.param(
            {
                "interctc_layer_idx": [1],
                "interctc_use_conditioning": True,
                "output_size": None,
            },
            id="conditioning-no-output",
        ),
    ],
)


def build(input_size=20, alpha=0.5, **options):
    """A small encoder whose attention counts, and the CTC it may need, as arguments."""
    encoder = SRUppEncoder(input_size, **{**SMALL, **options})
    for layer in encoder.encoders:
        if layer.attention.attention:
            layer.attention.alpha.data.fill_(alpha)
    kwargs = {}
    if encoder.interctc_use_conditioning:
        encoder.conditioning_layer = nn.Linear(7, encoder.output_size())
        kwargs["ctc"] = CTC(odim=7, encoder_output_size=encoder.output_size())
    return encoder, kwargs
