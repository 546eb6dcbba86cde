"""A trained model of ESPnet, from samples to log-probabilities by CTC."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

# before all of ESPnet: it spares its import a look into the network
import espnet_srupp.register  # noqa: F401
from espnet_srupp.compat import TooShortUttError
from espnet_srupp.longform.features import features, length
from espnet_srupp.longform.words import Clock, Spelling
from espnet_srupp.subsampling import output_length, shortest_input, stride

TILE = 1024  # frames whose features, or log-probabilities, are made at once
ROWS = 2**22  # log-probabilities that exist at once


@dataclass(frozen=True)
class Recogniser:
    """A model that is ready to decode.

    Attributes:
        espnet: ESPnetASRModel in evaluation mode.
        rate: of the audio in Hz.
        input_layer: of the encoder, by ESPnet's names.
        spelling: how tokens make words.
        dtype: of the encoder's products.
    """

    espnet: nn.Module
    rate: int
    input_layer: str | None
    spelling: Spelling
    dtype: torch.dtype

    @property
    def frame(self) -> float:
        """Seconds from one feature frame to the next."""
        return self.espnet.frontend.stft.hop_length / self.rate

    def features(self, blocks: Iterable[np.ndarray]) -> Tensor:
        """Features (T, D) of samples (N,) that come in blocks; T is 0 for too few."""
        return features(self.espnet.frontend, self.espnet.normalize, blocks, TILE)

    def encode(self, xs: Tensor) -> tuple[Tensor, Clock]:
        """Encodes features (T, D) in one pass.

        Returns:
            The encoder's output (T', D') and where its frames lie in time; T' is 0
            where there are too few features for a frame.
        """
        encoded = xs.new_zeros(0, self.espnet.encoder.output_size())
        if len(xs):
            with suppress(TooShortUttError):
                encoded = self.encoded(xs)
        return encoded, self.clock(len(xs), len(encoded))

    def encoded(self, xs: Tensor) -> Tensor:
        """(T, D) -> (T', D'), of features that are enough for a frame."""
        encoder = self.espnet.encoder
        uses_ctc = ("interctc_use_conditioning", "ctc_trim")
        kwargs = {}
        if any(getattr(encoder, name, False) for name in uses_ctc):
            kwargs["ctc"] = self.espnet.ctc
        mixed = self.dtype != torch.float32
        with torch.autocast(xs.device.type, self.dtype, enabled=mixed):
            xs, olens, _ = encoder(xs[None], length(xs), **kwargs)
        # with an intermediate CTC, its outputs come along
        xs = xs[0] if isinstance(xs, tuple) else xs
        return xs[0, : olens[0]].float()

    def clock(self, T: int, frames: int) -> Clock:
        """Where the encoder's `frames` of `T` features lie.

        Convolutions tell which features a frame is made of. Elsewhere frames are spread
        evenly over the features.
        """
        step = width = T / max(1, frames)
        if frames and frames == output_length(T, self.input_layer):
            width, step = shortest_input(self.input_layer), stride(self.input_layer)
        stft = self.espnet.frontend.stft
        middle = 0 if stft.center else stft.n_fft / 2
        first = ((width - 1) - step) / 2 * self.frame + middle / self.rate
        return Clock(first, step * self.frame)

    def log_probs(self, xs: Tensor) -> Iterator[Tensor]:
        """CTC's log-probabilities (rows, vocabulary) of encoded frames, in tiles."""
        rows = max(1, min(TILE, ROWS // len(self.espnet.token_list)))
        for tile in xs.split(rows):
            yield self.espnet.ctc.log_softmax(tile[None])[0]
