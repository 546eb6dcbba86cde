"""The encoder as a file for ONNX's runtimes, which have no recurrence but by frames."""

import os
from importlib.util import find_spec

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan as loop
from torch.export import Dim

from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.recurrence import reference
from espnet_srupp.recurrence.operator import recurrence_forward


def export(encoder: SRUppEncoder, path: str | os.PathLike) -> None:
    """Writes `encoder` to `path`, for any number of utterances of any length.

    The model has the inputs `xs_pad` (B, T, input_size), or (B, T) token ids for
    `input_layer: embed`, and `ilens` (B,) int64; its outputs are `encoder_out`
    (B, T', output_size) and `encoder_out_lens` (B,). An utterance too short for the
    subsampling has the length 0 there.

    Raises:
        ValueError: it is in training mode, has intermediate outputs or is not of
            float32, of which onnxruntime has all operators.
        ImportError: onnxscript is missing.
    """
    if find_spec("onnxscript") is None:
        raise ImportError("export to ONNX needs onnxscript: pip install onnxscript")
    if encoder.training:
        raise ValueError("the encoder is in training mode: call its eval() first")
    if encoder.interctc_layer_idx:
        raise ValueError(
            "export to ONNX does not serve interctc_layer_idx: it writes one output"
        )
    dtype = next(encoder.parameters()).dtype
    if dtype != torch.float32:
        raise ValueError(f"the encoder is of {dtype}: call its float() first")
    # of sizes that torch does not take for constants
    xs_pad = next(encoder.parameters()).new_ones(2, 200, encoder.input_size)
    if encoder.input_layer == "embed":
        xs_pad = xs_pad[..., 0].long()
    ilens = torch.tensor([200, 170], device=xs_pad.device)
    sizes = {"xs_pad": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, "ilens": {0: Dim.DYNAMIC}}
    with torch.no_grad():
        program = torch.export.export(encoder, (xs_pad, ilens), dynamic_shapes=sizes)
        program = program.run_decompositions({recurrence_forward: by_scan})
        model = torch.onnx.export(
            program, dynamo=True, output_names=("encoder_out", "encoder_out_lens")
        )
    model.save(path)


def by_scan(
    u: Tensor,
    x: Tensor,
    v: Tensor,
    b: Tensor,
    c0: Tensor | None,
    lengths: Tensor | None,
    mask_c: Tensor | None,
    bidirectional: bool,
    save_c: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """`recurrence_forward` as the reference with ONNX's `Scan` for its loop."""
    given = u, x, v, b, c0, lengths, mask_c, bidirectional
    h, c_last = reference.recurrence(*given, scan=scan)
    return h, c_last, v.new_empty(0)


def scan(
    u: Tensor, x: Tensor, v: Tensor, b: Tensor, c: Tensor, real: Tensor, mask_c: Tensor
) -> tuple[Tensor, Tensor]:
    """`reference.scan` as one operator of torch."""
    # which takes no views
    u, x, v, b, c, real, mask_c = (
        tensor.clone(memory_format=torch.contiguous_format)
        for tensor in (u, x, v, b, c, real, mask_c)
    )

    def step(c, frame):
        u, x, real = frame
        h, c = reference.step(u, x, v, b, c, real, mask_c)
        return c, h

    c, h = loop(step, c, (u, x, real), dim=0)
    return h, c
