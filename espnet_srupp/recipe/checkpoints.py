"""ESPnet's checkpoint of a training, kept so that it cannot be lost."""

import os
import shutil
import zipfile
from pathlib import Path

import torch

from espnet_srupp.recipe.stage import say

# our copy of it
SAVED = ".checkpoint.pth"


def save(exp: Path) -> None:
    """Keeps the checkpoint of the last complete epoch.

    ESPnet overwrites its own in place, so one interrupted there would be lost.
    """
    copy = exp / f"{SAVED}.partial"
    shutil.copyfile(exp / "checkpoint.pth", copy)
    # not if ESPnet has meanwhile begun to write the next one
    if zipfile.is_zipfile(copy):
        copy.replace(exp / SAVED)


def restore(exp: Path) -> None:
    """Puts the checkpoint of the last complete epoch where ESPnet looks for it."""
    checkpoint = exp / "checkpoint.pth"
    if (exp / SAVED).exists() and not overtaken(exp):
        shutil.copyfile(exp / SAVED, checkpoint)
    elif checkpoint.exists() and not zipfile.is_zipfile(checkpoint):
        say(f"  {checkpoint} is damaged: the training starts anew")
        checkpoint.unlink()
    elif checkpoint.exists() and not os.path.lexists(exp / "latest.pth"):
        # ESPnet would go on without that epoch's model, and miss it when it averages
        say("  the first epoch was not finished: the training starts anew")
        checkpoint.unlink()


def overtaken(exp: Path) -> bool:
    """Whether the training has gone on without us, as by asr.sh.

    By one epoch it is also ahead of our copy when killed between checkpoint and copy.
    """
    checkpoint = exp / "checkpoint.pth"
    if not zipfile.is_zipfile(checkpoint):
        return False
    return epoch(checkpoint) > epoch(exp / SAVED) + 1


def epoch(checkpoint: Path) -> int:
    """The number of the last epoch in a checkpoint."""
    return torch.load(checkpoint, mmap=True, weights_only=True)["reporter"]["epoch"]
