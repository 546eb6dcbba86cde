"""In which type products are computed, ESPnet's `use_amp: true` on CPUs, and NaN there.

Of itself ESPnet knows GPUs only: it asks for autocast of "cuda", on for a step and off
for the features in it, and neither does anything without a GPU. Nor does its gradient
scaler, not even what ESPnet counts on: to leave out steps whose gradients are not
finite. One of them would turn every parameter into NaN.
"""

import logging
import sys
from types import ModuleType

import torch


def computed_in(x: torch.Tensor) -> torch.dtype:
    """The type of products of x, which autocast chooses where it is on."""
    device = x.device.type
    # asking for a device without autocast, as meta, is an error
    casts = device in ("cpu", "cuda") and torch.is_autocast_enabled(device)
    if casts and x.dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    return x.dtype


def set_apart(xs_pad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Zeros for utterances that are not finite, and which they are: (B,) bool.

    In types of 16 bits on a CPU alone: there oneDNN's products, if the CPU has AMX,
    read beyond a row that is no multiple of 64 bytes (uxlfoundation/oneDNN#5717), which
    would bring the NaN of an utterance to the next.
    """
    half = xs_pad.is_floating_point() and computed_in(xs_pad).itemsize == 2
    if not (half and xs_pad.is_cpu):
        return xs_pad, None
    broken = ~xs_pad.isfinite().flatten(1).all(1)
    return xs_pad.masked_fill(broken[:, None, None], 0), broken


def has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16; others imitate it, slower than float32."""
    found = torch.cpu.get_capabilities()
    return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def mix_on_cpu(trainer: ModuleType) -> None:
    """Makes `use_amp: true` mean bfloat16 on a CPU that has it, and float32 on others.

    Args:
        trainer: ESPnet's `espnet2.train.trainer`. It stays as it is where torch finds
            a GPU.
    """
    if torch.cuda.is_available():
        return
    supported = has_bfloat16()

    class CPUGradScaler(trainer.GradScaler):
        def __init__(self) -> None:
            torch.amp.GradScaler.__init__(self, "cpu")
            numbers = "bfloat16" if supported else "float32, as it has no bfloat16"
            logging.info(f"use_amp: this CPU computes in {numbers}")

        def load_state_dict(self, state: dict) -> None:
            # empty, if it is that of a training without this
            if state:
                super().load_state_dict(state)

    def autocast(
        *device: object, enabled: bool | None = None, dtype: object = None
    ) -> torch.autocast:
        # up to 202511 ESPnet gives `enabled` alone, in its place
        enabled = device[0] if enabled is None else enabled
        return torch.autocast("cpu", torch.bfloat16, enabled=enabled and supported)

    imported = trainer.autocast
    for name, module in list(sys.modules.items()):
        if name.startswith("espnet2.") and vars(module).get("autocast") is imported:
            module.autocast = autocast
    trainer.GradScaler = CPUGradScaler
