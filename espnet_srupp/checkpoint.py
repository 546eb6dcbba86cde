"""Checkpoints that are there whole or not at all, however a training ends.

ESPnet hands torch.save the path of the checkpoint that a training goes on from, and
torch.save opens that file and writes it in place: who kills the training just then, or
fills the disk, has lost the old one and has no new one.

And it saves the checkpoint before the model of the same epoch: a training killed in
between would go on without that model, and miss it when it averages the best ones.
"""

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

CHECKPOINT, MODEL = "checkpoint.pth", re.compile(r"\d+epoch\.pth")


def whole(save: Callable) -> Callable:
    """`torch.save` that writes beside the path and takes its place when all is on disk.

    A checkpoint of ESPnet's trainer takes its place once its epoch's model is there.

    Args:
        save: `torch.save`. What it writes to an open file stays as it is.
    """
    waiting: set[Path] = set()

    @functools.wraps(save)
    def saved(obj: object, f: Any, *args: object, **kwargs: object) -> None:
        if not isinstance(f, (str, os.PathLike)):
            return save(obj, f, *args, **kwargs)
        # what a link points to, as open() would
        path = Path(f).resolve()
        if path.exists() and not path.is_file():
            # a device or a pipe, whose place no file may take
            return save(obj, f, *args, **kwargs)
        partial = beside(path)
        waiting.discard(path)
        try:
            with open(partial, "wb") as file:
                save(obj, file, *args, **kwargs)
                file.flush()
                os.fsync(file.fileno())
            if path.name == CHECKPOINT and isinstance(obj, dict) and "reporter" in obj:
                waiting.add(path)
                return
            os.replace(partial, path)
            checkpoint = path.with_name(CHECKPOINT)
            if MODEL.fullmatch(path.name) and checkpoint in waiting:
                os.replace(beside(checkpoint), checkpoint)
                waiting.remove(checkpoint)
        finally:
            if path not in waiting:
                partial.unlink(missing_ok=True)

    return saved


def beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.writing")


def save_whole() -> None:
    """Makes every torch.save of this process so, once."""
    if not hasattr(torch.save, "__wrapped__"):
        torch.save = whole(torch.save)
