"""The encoder as a file for ONNX's runtimes, which have no recurrence but by frames."""

import os
from importlib.util import find_spec

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
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
        ValueError: it is in training mode, or has intermediate outputs.
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
    """`recurrence_forward` as two loops over time, which ONNX has as its `Scan`."""
    T, B, D = x.shape
    lengths = torch.full((B,), T, device=x.device) if lengths is None else lengths
    real = torch.arange(T, device=x.device)[:, None, None] < lengths[:, None]
    c0 = v.new_zeros(B, D) if c0 is None else c0
    mask_c = v.new_ones(B, D) if mask_c is None else mask_c

    def walk(part: slice, reverse: bool) -> tuple[Tensor, Tensor]:
        # a loop takes no views
        uz, xz, vz, bz, c, mask = (
            tensor[..., part].clone(memory_format=torch.contiguous_format)
            for tensor in (u.to(v.dtype), x.to(v.dtype), v, b, c0, mask_c)
        )

        def body(c, frames):
            h, c = reference.step(*frames[:2], vz, bz, c, frames[2], mask)
            return c, h

        return scan(body, c, (uz, xz, real.clone()), dim=0, reverse=reverse)

    half = D // 2 if bidirectional else D
    ways = [walk(slice(0, half), False)]
    if bidirectional:
        ways.append(walk(slice(half, D), True))
    c_last, h = (torch.cat(parts, -1) for parts in zip(*ways, strict=True))
    return h.to(x.dtype), c_last, v.new_empty(0)
