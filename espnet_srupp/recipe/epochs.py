"""What ESPnet's training log says about each epoch."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LOG = re.compile(r"train(\.\d+)?\.log")
RESULTS = re.compile(r"(\d+)epoch results: (.*)")
SECTION = re.compile(r"\[(\w+)\] ")
PAIR = re.compile(r"(\w+)=(.*?)(?=, \w+=|,? *$)")
SPAN = re.compile(r"([\d.]+) (week|day|hour|minute|second)")
NUMBER = re.compile(r"[-+]?(?:[\d.]+(?:e[-+]?\d+)?|nan|inf)")
SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}


@dataclass(frozen=True)
class Epoch:
    """Averages over one epoch.

    Attributes:
        number: from 1.
        train, valid: by ESPnet's names: loss, loss_ctc, loss_att, acc, cer_ctc, ...
        seconds: training, validation and attention plots together.
    """

    number: int
    train: dict[str, float]
    valid: dict[str, float]
    seconds: float


def parse(line: str) -> Epoch | None:
    """Reads a log line; None where it is not the results of an epoch."""
    found = RESULTS.search(line)
    if not found:
        return None
    _, *parts = SECTION.split(found[2])
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    times = [pairs(text).get("time", "") for text in sections.values()]
    return Epoch(
        int(found[1]),
        numbers(sections.get("train", "")),
        numbers(sections.get("valid", "")),
        sum(map(seconds, times)),
    )


def pairs(section: str) -> dict[str, str]:
    return dict(PAIR.findall(section))


def numbers(section: str) -> dict[str, float]:
    """The values that are numbers; `time` is in words, and a line may be cut off."""
    return {k: float(v) for k, v in pairs(section).items() if NUMBER.fullmatch(v)}


def seconds(words: str) -> float:
    """Reads "1 minute and 2.5 seconds"."""
    return sum(float(n) * SECONDS[unit] for n, unit in SPAN.findall(words))


def read(lines: Iterable[str]) -> list[Epoch]:
    """The epochs in order; of one that was trained twice, the later."""
    found = [epoch for line in lines if (epoch := parse(line))]
    return [epoch for _, epoch in sorted({e.number: e for e in found}.items())]


def files(exp: Path) -> list[Path]:
    """An experiment's training logs, oldest first.

    asr.sh moves train.log to train.1.log and so on when a training goes on.
    """
    found = [path for path in exp.glob("train*.log") if LOG.fullmatch(path.name)]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def logs(exp: Path) -> Iterable[str]:
    """The lines of these."""
    for path in files(exp):
        yield from path.read_text(encoding="utf-8", errors="replace").splitlines()
