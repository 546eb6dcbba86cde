"""Training on a GPU that gives the same bits in every run, if the environment asks.

ESPnet's `cudnn_deterministic` is about convolutions. The backward passes of attention
and of CTC add in an order that changes from run to run; torch has another way for the
first and none for the second, which is computed on the CPU here.
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
    nn.CTCLoss.forward = on_cpu


def on_cpu(self: nn.CTCLoss, log_probs: Tensor, *others: Tensor) -> Tensor:
    """`nn.CTCLoss.forward` on the CPU, its loss on the device of `log_probs`."""
    loss = ctc_loss(self, log_probs.cpu(), *(other.cpu() for other in others))
    return loss.to(log_probs.device)
