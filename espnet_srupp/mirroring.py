"""ESPnet's STFT with every utterance of a batch continued by its own mirror image.

torch.stft mirrors the end of a batch. So the last frames of its longest utterance are
as if it were alone, those of the others read the zeros that pad them, and what a model
makes of an utterance depends on its batch.
"""

import functools
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor


def mirror_ends(module: ModuleType) -> None:
    """Has the `Stft` of espnet2.layers.stft give a row of a batch its frames alone."""
    forward = module.Stft.forward

    @functools.wraps(forward)
    def mirrored(
        self: torch.nn.Module, input: Tensor, ilens: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        # one alone is mirrored, or refused as too short, by torch
        if ilens is None or len(ilens) == 1 or not self.center:
            return forward(self, input, ilens)
        pad = self.n_fft // 2
        frames = (input.shape[1] + 2 * pad - self.n_fft) // self.hop_length + 1
        output, olens = forward(self, extend(input, ilens, pad), ilens)
        return output[:, :frames], olens

    module.Stft.forward = mirrored


def extend(waves: Tensor, lengths: Tensor, pad: int) -> Tensor:
    """Waves (B, T, ...), `lengths` (B,) of each real, with `pad` mirrored samples more.

    Those that a wave is too short for are 0; alone, torch.stft refuses it.
    """
    B, T = waves.shape[:2]
    steps = torch.arange(pad, device=waves.device)
    lengths = lengths.to(waves.device)[:, None]
    rows = torch.arange(B, device=waves.device)[:, None]
    sources = lengths - 2 - steps  # (B, pad)
    samples = waves[rows, sources.clamp(min=0)]
    samples[sources < 0] = 0
    longer = F.pad(waves, (0, 0) * (waves.dim() - 2) + (0, pad))
    longer[rows, lengths + steps] = samples
    return longer
