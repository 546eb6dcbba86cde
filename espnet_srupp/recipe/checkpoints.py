"""ESPnet's checkpoint of a training, kept so that it cannot be lost."""

import os
import re
import shutil
import zipfile
from pathlib import Path

from espnet_srupp.recipe.progress import say

# our copy of it, and the number of its last epoch
SAVED, EPOCH = ".checkpoint.pth", ".checkpoint.epoch"


def save(exp: Path) -> None:
    """Keeps the checkpoint of the last complete epoch.

    ESPnet overwrites its own in place, so one interrupted there would be lost.
    """
    copy = exp / f"{SAVED}.partial"
    shutil.copyfile(exp / "checkpoint.pth", copy)
    # not if ESPnet has meanwhile begun to write the next one
    if zipfile.is_zipfile(copy):
        copy.replace(exp / SAVED)
        (exp / EPOCH).write_text(f"{last_epoch(exp)}")


def remove(exp: Path) -> None:
    """Removes the copy, when the training has ended."""
    for name in (SAVED, EPOCH):
        (exp / name).unlink(missing_ok=True)


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
    saved = (exp / EPOCH).read_text() if (exp / EPOCH).exists() else ""
    if not (saved.isdecimal() and zipfile.is_zipfile(exp / "checkpoint.pth")):
        return False
    return last_epoch(exp) > int(saved) + 1


def last_epoch(exp: Path) -> int:
    """The number of the last epoch that has left its model, 0 before the first."""
    found = re.fullmatch(r"(\d+)epoch\.pth", (exp / "latest.pth").resolve().name)
    return int(found[1]) if found else 0
