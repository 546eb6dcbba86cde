"""How much each SRU++ layer attends: its alpha, epoch by epoch."""

import re
from pathlib import Path
from statistics import mode

import torch

NAME = "alpha.csv"
NUMBER = r"(?:nan|-?inf|-?\d+(?:\.\d+)?(?:e[-+]\d+)?)"
LINE = re.compile(rf"\d+(?:,{NUMBER})+")


def record(exp: Path, epoch: int) -> None:
    """Appends "epoch,alpha,alpha,..." to `exp/alpha.csv`, a column for each layer.

    Args:
        exp: the experiment; of a model without such layers nothing is written.
        epoch: the one that ESPnet has just saved.
    """
    path = exp / f"{epoch}epoch.pth"
    if not path.exists():
        return
    # mapped, so that of a large model no more is read than these few numbers
    state = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    names = [name for name in state if name.endswith(".attention.alpha")]
    if names:
        values = ",".join(f"{state[name].item():.6g}" for name in names)
        with open(exp / NAME, "a", encoding="utf-8") as file:
            file.write(f"{epoch},{values}\n")


def read(exp: Path) -> dict[int, list[float]]:
    """Alpha of every layer by epoch; of an epoch trained twice, the later.

    Lines that a kill or a full disk has cut off are left out.
    """
    path = exp / NAME
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    rows = [line.split(",") for line in text.splitlines() if LINE.fullmatch(line)]
    width = mode(map(len, rows)) if rows else 0
    found = {int(e): list(map(float, row)) for e, *row in rows if 1 + len(row) == width}
    return dict(sorted(found.items()))
