"""What the user sees of a training that is at work."""

import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_srupp.recipe import alphas, config, epochs, init_param
from espnet_srupp.recipe.epochs import Epoch
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.process import Tail
from espnet_srupp.recipe.progress import say, timespan

# an epoch that is longer shows how far it is
QUIET_SECONDS = 30
# ESPnet's schedulers that rise for so many steps where their conf names none
WARMUP_STEPS = 25000
WARMUPS = ("noamlr", "warmuplr", "warmupreducelronplateau", "warmupsteplr")


class View:
    """Follows the log of a training and tells the user how it goes."""

    def __init__(self, log: Path):
        self.log = log
        self.tail = Tail(log)
        self.epoch = self.epochs = self.batches = 0
        self.seconds: list[float] = []
        self.told = time.monotonic()
        self.broken = False
        self.frozen: list[str] = []
        # a dict, as with several GPUs each process tells them
        self.unfit: dict[str, None] = {}

    def update(self) -> None:
        """Reads what is new in the log."""
        for line in self.tail.lines():
            self.read(line)

    def read(self, line: str) -> None:
        if found := re.search(r"Total Number of model parameters: ([\d.]+ \w)", line):
            self.tell(f"the model has {found[1]} parameters")
        elif found := re.search(r"Setting (\S+)\.requires_grad = False", line):
            self.frozen.append(found[1])
        elif found := re.search(r"Filter out (\S+) from pretrained dict", line):
            self.unfit[found[1]] = None
        elif found := re.search(r"was resumed using (\S+)", line):
            self.tell(f"continuing from {found[1]}")
        elif found := re.search(r"\[train\].* N-batch=(\d+)", line):
            # ESPnet counts all that there are
            trained = config.trained_with(self.log.parent / "config.yaml")
            self.batches = trained.get("num_iters_per_epoch") or int(found[1])
            check_frozen(trained, self.frozen)
            if self.unfit and (begins := trained.get("init_param")):
                self.tell(init_param.misfits(begins, self.unfit))
            if trained:
                self.tell(pace(trained, self.batches))
        elif found := re.search(r"(\d+)/(\d+)epoch started", line):
            self.epoch, self.epochs = int(found[1]), int(found[2])
        elif found := re.search(r"epoch:train:\d+-(\d+)batch: .*\bloss=([^,]+)", line):
            self.within(int(found[1]), found[2])
        elif epoch := epochs.parse(line):
            self.finished(epoch)
        elif "best model has been updated" in line or "no improvements" in line:
            alphas.record(self.log.parent, self.epoch)
        elif "gradients at all steps are invalid" in line:
            self.broken = True

    def within(self, batch: int, loss: str) -> None:
        if time.monotonic() - self.told > QUIET_SECONDS:
            self.tell(f"epoch {self.epoch}: batch {batch}/{self.batches}, loss {loss}")

    def finished(self, epoch: Epoch) -> None:
        self.seconds.append(epoch.seconds)
        left = (self.epochs - epoch.number) * sum(self.seconds) / len(self.seconds)
        shown = [
            ("train loss", epoch.train.get("loss")),
            ("valid loss", epoch.valid.get("loss")),
        ]
        scores = [
            ("acc", epoch.valid.get("acc")),
            ("CER of CTC", epoch.valid.get("cer_ctc")),
            ("CER of the transducer", epoch.valid.get("cer_transducer")),
        ]
        # of scores that a model has not ESPnet writes NaN, which would seem a failure
        shown += [(k, v) for k, v in scores if v is not None and not math.isnan(v)]
        values = [f"{name} {value:.3g}" for name, value in shown if value is not None]
        times = [timespan(epoch.seconds), f"{timespan(left)} left"]
        self.tell(f"epoch {epoch.number}/{self.epochs}: {', '.join(values + times)}")

    def tell(self, message: str) -> None:
        self.told = time.monotonic()
        say(f"  {message}")


def check_frozen(trained: Mapping[str, object], frozen: Sequence[str]) -> None:
    """Sees that all of `freeze_param` is of the model, as ESPnet does not tell it.

    Raises:
        RecipeError: it is no list, or a name of it is that of no parameter and of no
            module.
    """
    names = trained.get("freeze_param") or []
    if isinstance(names, str):
        # of which ESPnet takes each letter
        raise RecipeError(f"freeze_param is no list: write [{names}]")
    for name in names:
        if not any(each == name or each.startswith(f"{name}.") for each in frozen):
            raise RecipeError(
                f"freeze_param {name} is no parameter and no module of the model, so "
                "that it freezes nothing: correct it"
            )


def pace(trained: Mapping[str, object], batches: int) -> str:
    """How long a training is, and whether it ends before its learning rate has risen.

    Args:
        trained: its configuration, flat, as ESPnet has written it.
        batches: of an epoch.
    """
    epochs = config.number(trained, "max_epoch", 0, int)
    steps = epochs * steps_in(trained, batches)
    usual = WARMUP_STEPS if trained.get("scheduler") in WARMUPS else 0
    rising = config.number(trained, "scheduler_conf.warmup_steps", usual)
    told = f"{epochs} epochs of {batches} batches, {steps} steps"
    if not rising:
        return told
    told += f", the learning rate rises for {rising:.0f}"
    if rising < steps:
        return told
    return (
        f"{told}: IT NEVER REACHES ITS PEAK, lower scheduler_conf.warmup_steps, to a "
        "tenth of the steps, say, or lower batch_bins for more steps"
    )


def steps_in(trained: Mapping[str, object], batches: int) -> int:
    """The steps of an epoch of so many batches.

    Raises:
        RecipeError: there is none, of which ESPnet would say at the epoch's end that
            no gradient was finite.
    """
    summed = max(1, config.number(trained, "accum_grad", 1, int))
    if summed > batches:
        raise RecipeError(
            f"accum_grad is {summed} and an epoch has {batches} batches, so it has "
            "no step: lower accum_grad, or batch_bins (batch_size) for more batches"
        )
    return batches // summed
