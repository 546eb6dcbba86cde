"""Training on a GPU that gives the same bits in every run, if the environment asks.

ESPnet's `cudnn_deterministic` is about convolutions. The backward passes of attention
and of CTC add in an order that changes from run to run; torch has another way for the
first and none for the second, which is computed on the CPU here. Not with ESPnet's
`ctc_type: builtin2`, which looks for the gradient where CTC leaves it on a GPU.
"""

import os

import torch
from torch import Tensor, nn

ASKED = "ESPNET_SRUPP_DETERMINISTIC"
ctc_loss = nn.CTCLoss.forward


def repeat_bits() -> None:
    """Has this process compute the same bits in every run, if ASKED is set.

    What torch cannot do so on a GPU raises a RuntimeError that names it.
    """
    if os.environ.get(ASKED, "0") in ("", "0"):
        return
    # cuBLAS reads it as it starts
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # else new memory is written twice, for programs that read it before they write
    torch.utils.deterministic.fill_uninitialized_memory = False
    nn.CTCLoss.forward = on_cpu


def on_cpu(
    self: nn.CTCLoss, log_probs: Tensor, *others: object, **named: object
) -> Tensor:
    """`nn.CTCLoss.forward` on the CPU, its loss on the device of `log_probs`."""
    others = map(to_cpu, others)
    named = {name: to_cpu(other) for name, other in named.items()}
    return ctc_loss(self, log_probs.cpu(), *others, **named).to(log_probs.device)


def to_cpu(other: object) -> object:
    return other.cpu() if isinstance(other, Tensor) else other
