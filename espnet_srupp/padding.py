"""The frames of a padded batch that are real, and the others."""

import torch
from torch import Tensor

from espnet_srupp.compat import TooShortUttError
from espnet_srupp.subsampling import output_length, shortest_input


def cut(xs_pad: Tensor, ilens: Tensor, input_layer: str | None) -> tuple[Tensor, bool]:
    """Cuts a batch to its longest utterance; zeros at padded frames.

    Args:
        xs_pad: (B, T, features), or (B, T) token ids.
        ilens: (B,), frames of each utterance.
        input_layer: the encoder's, which needs some frames to make one.

    Returns:
        The batch, and whether any frame of it is padded, or may be where it is traced.

    Raises:
        ValueError: an utterance is longer than the batch.
        TooShortUttError: the longest gives no frame.
    """
    width = longest = xs_pad.shape[1]
    padded = True
    # traced code cannot read lengths: there the batch keeps its padded width
    if not (torch.compiler.is_compiling() or torch.jit.is_tracing()):
        shortest, longest = bounds(ilens)
        # nor may a graph of operators lack the mask that its example did without
        padded = torch._C._len_torch_dispatch_stack() > 0 or shortest < longest
    if longest > width:
        raise ValueError(
            f"ilens names {longest} frames, but xs_pad has {width}: pad it to the "
            "longest utterance"
        )
    if output_length(longest, input_layer) == 0:
        limit = shortest_input(input_layer)
        raise TooShortUttError(
            f"has {longest} frames and is too short for subsampling "
            f"(it needs at least {limit}), return empty results",
            longest,
            limit,
        )
    xs_pad = xs_pad[:, :longest]
    if padded:
        frames = torch.arange(longest, device=xs_pad.device)
        beyond = frames >= ilens[:, None]  # (B, T)
        xs_pad = xs_pad.masked_fill(
            beyond[..., None] if xs_pad.dim() == 3 else beyond, 0
        )
    return xs_pad, padded


def bounds(ilens: Tensor) -> tuple[int, int]:
    """The least and the most of them; a GPU is waited for once."""
    if len(ilens) == 0:
        return 0, 0
    shortest, longest = torch.stack(ilens.aminmax()).tolist()
    return shortest, longest


def repeat_last(xs: Tensor, olens: Tensor) -> Tensor:
    """Each utterance's last frame in the place of what pads it, in (B, T, D)."""
    B, T, _ = xs.shape
    last = (olens - 1).clamp(min=0)[:, None]
    frames = torch.arange(T, device=xs.device).minimum(last)  # (B, T)
    return xs[torch.arange(B, device=xs.device)[:, None], frames]
