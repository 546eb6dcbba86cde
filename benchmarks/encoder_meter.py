"""Time and memory of a step of an encoder, and the machine's fastest product."""

import ctypes
import gc
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from espnet_srupp.longform.usage import PeakMemory
from espnet_srupp.profile import build_encoder
from espnet_srupp.recipe.config import load
from espnet_srupp.recipe.errors import RecipeError


def build(path: Path) -> tuple[nn.Module, int]:
    """The encoder of a configuration, and its features per frame."""
    try:
        return build_encoder(load(path))
    except Exception as error:  # there is no end to what ESPnet's classes raise
        # ESPnet's assertions say nothing
        said = " ".join(str(error).split()) or type(error).__name__
        raise RecipeError(f"{path}: {said}") from error


class Meter:
    """Measures on one device, in one type, training or inference.

    Args:
        device: "cpu" or "cuda".
        dtype: of autocast; float32 leaves it out.
        train: whether a step is forward, backward and AdamW's, or forward alone.
    """

    def __init__(self, device: str, dtype: torch.dtype, train: bool):
        self.device, self.dtype, self.train = device, dtype, train

    def step(
        self, encoder: nn.Module, xs_pad: torch.Tensor, ilens: torch.Tensor
    ) -> Callable[[], None]:
        xs_pad, ilens = xs_pad.to(self.device), ilens.to(self.device)
        mixed = torch.autocast(
            self.device, self.dtype, enabled=self.dtype != torch.float32
        )
        if not self.train:

            def infer() -> None:
                with torch.no_grad(), mixed:
                    encoder(xs_pad, ilens)

            return infer
        optimiser = torch.optim.AdamW(encoder.parameters(), lr=1e-6)

        def train() -> None:
            with mixed:
                xs, *_ = encoder(xs_pad, ilens)
                # with intermediate outputs: the last, and theirs
                xs = xs[0] if isinstance(xs, tuple) else xs
            xs.float().square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()

        return train

    def time(self, run: Callable[[], None]) -> float:
        """Seconds."""
        self.wait()
        start = time.perf_counter()
        run()
        self.wait()
        return time.perf_counter() - start

    def memory(self, run: Callable[[], None]) -> int:
        """Bytes that a run takes at most, beyond what is there before it."""
        gc.collect()
        if self.device == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            run()
            self.wait()
            return torch.cuda.max_memory_allocated() - before
        # what was freed goes back to the system, and the high-water mark with it
        ctypes.CDLL(None).malloc_trim(0)
        peak = PeakMemory()
        before = peak.bytes()
        if before is None:
            raise SystemExit("error: memory on a CPU is read from Linux's /proc.")
        run()
        return peak.bytes() - before

    def peak(self) -> float:
        """Operations per second of the fastest of some products of matrices."""
        size = 2048 if self.device == "cpu" else 8192
        a, b = torch.randn(2, size, size, device=self.device, dtype=self.dtype)
        torch.mm(a, b)
        best = min(self.time(lambda: torch.mm(a, b)) for _ in range(10))
        return 2 * size**3 / best

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()
