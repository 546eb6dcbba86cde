"""How much each SRU++ layer attends: its alpha, epoch by epoch."""

from contextlib import suppress
from pathlib import Path
from statistics import mode

import torch

NAME = "alpha.csv"


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
    rows: list[tuple[int, list[float]]] = []
    for line in text.splitlines():
        with suppress(ValueError):
            epoch, *values = line.split(",")
            rows.append((int(epoch), [float(value) for value in values]))
    layers = mode(len(values) for _, values in rows) if rows else 0
    found = {epoch: values for epoch, values in rows if len(values) == layers}
    return dict(sorted(found.items()))
