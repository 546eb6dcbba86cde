"""Stages 7 and 11: training, shown epoch by epoch, continued after an interrupt."""

import os
import re
import shlex
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from espnet_srupp.recipe import (
    alphas,
    commands,
    config,
    epochs,
    pictures,
    process,
    stage,
)
from espnet_srupp.recipe.epochs import Epoch
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options, cores
from espnet_srupp.recipe.process import Job, Tail
from espnet_srupp.recipe.stage import say, timespan

# a training goes on when these change; with anything else it is another training
CONTINUES = ("max_epoch", "patience", "num_workers", "log_interval", "num_att_plot")
MAX_EPOCH = 40  # ESPnet's default
# what the training depends on, and our copy of ESPnet's checkpoint
BEGUN, SAVED = ".training", ".checkpoint.pth"
# an epoch that is longer shows how far it is
QUIET_SECONDS = 30


def train(
    options: Options, exp: Path, command: Callable[[int], list[str]], record: dict
) -> None:
    """Trains, or continues from ESPnet's last complete epoch.

    Args:
        options: of the recipe.
        exp: the folder of the experiment.
        command: the arguments of ESPnet's program for a number of GPUs.
        record: what the training depends on, see `stage.Step.record`. Where the folder
            holds a training that depended on something else, or with --force true, it
            is kept under another name and the training starts anew; without --force
            one that was kept so, and depended on this, goes on instead.

    Raises:
        RecipeError: there is no such GPU, the training is past max_epoch, ESPnet
            failed, or no gradient was finite.
    """
    ngpu = gpus(options)
    if anew(options, exp, record):
        before = None if options.force else kept(exp, record)
        if has_epoch(exp) or before and exp.exists():
            say(f"  the earlier training is kept as {put_aside(exp)}")
        if before:
            say(f"  {before}, which had these settings, goes on as {exp}")
            before.rename(exp)
    check_epochs(exp, record)
    restore(exp)
    stage.write(exp / BEGUN, {**record, "machine": machine(options, ngpu)})
    view = View(exp / "train.log")
    say(f"  ESPnet is starting on {place(options, ngpu)}, log: {view.log}")
    job = Job(command(ngpu), view.log)
    if options.launched:
        # the launcher puts an older train.log aside and begins one
        words = commands.launched(options, exp, ngpu, job.arguments)
        job = Job(words, exp / "launch.log")
    process.run([job], options.python, view.update, append=True)
    if view.broken:
        raise RecipeError(
            f"no step of epoch {view.epoch} had a finite gradient, so ESPnet stopped: "
            f"lower the learning rate in its YAML (log: {view.log})"
        )
    (exp / SAVED).unlink(missing_ok=True)
    pictures.curves(exp)


def check(options: Options, exp: Path, record: Mapping) -> None:
    """Sees that a training can begin or go on.

    Raises:
        RecipeError: there is no such GPU, the training is past max_epoch, or it would
            put aside the model that it is to begin with.
    """
    gpus(options)
    if not anew(options, exp, record):
        return check_epochs(exp, record)
    start = Path(options.pretrained_model.partition(":")[0]).resolve()
    if exp.resolve() in start.parents:
        raise RecipeError(
            f"--pretrained_model {options.pretrained_model} lies in {exp}, which this "
            "training would put aside: give it another name by --asr_tag"
        )
    if before := None if options.force else kept(exp, record):
        check_epochs(before, record)


def anew(options: Options, exp: Path, record: Mapping) -> bool:
    """Whether the folder holds no training, or another than the one asked for."""
    begun = stage.read(exp / BEGUN)
    return options.force or (restarts(begun, record) if begun else not has_epoch(exp))


def gpus(options: Options) -> int:
    """The number of GPUs to train on, by default 1 where there is one.

    On other machines, which cannot be asked from here, 1 each by default.
    """
    if options.launched:
        return abs(options.ngpu)
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if options.ngpu > found:
        raise RecipeError(
            f"--ngpu {options.ngpu}: torch finds {found or 'no'} GPU here: give --ngpu "
            f"{found}"
        )
    return min(found, 1) if options.ngpu < 0 else options.ngpu


def place(options: Options, ngpu: int) -> str:
    """Where the training runs, in words."""
    devices = f"{ngpu} GPU{'s' * (ngpu > 1)}" if ngpu else "the CPU"
    if options.host:
        return f"{options.host} by SSH"
    if options.cuda_cmd:
        program = Path(shlex.split(options.cuda_cmd)[0]).name
        return f"{options.num_nodes} x {devices} by {program}"
    return devices


def machine(options: Options, ngpu: int) -> str:
    """The hardware that trains, in words."""
    if options.launched:
        return place(options, ngpu)
    if ngpu:
        import torch

        return f"{ngpu} x {torch.cuda.get_device_name(0)}"
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    found = re.search(r"model name\s*: (.+)", text)
    return f"{cores()} cores" + (f" of {found[1]}" if found else "")


def restarts(begun: dict, record: dict) -> bool:
    return bool(stage.difference(lasting(begun), lasting(record)))


def lasting(record: Mapping) -> dict:
    """A record without the settings that a training can change on its way."""
    kept = {k: v for k, v in record["options"].items() if k not in CONTINUES}
    return {"options": kept, "inputs": record["inputs"]}


def has_epoch(exp: Path) -> bool:
    """Whether there is anything that an earlier training has learned."""
    return any(exp.glob("*.pth"))


def check_epochs(exp: Path, record: Mapping) -> None:
    """Sees that a training that goes on has not gone on for too long.

    Raises:
        RecipeError: it has more epochs than it is to have.
    """
    trained = epochs.read(epochs.logs(exp)) if has_epoch(exp) else []
    last = config.number(record["options"], "max_epoch", MAX_EPOCH, int)
    if trained and trained[-1].number > last:
        raise RecipeError(
            f"{exp} has trained for {trained[-1].number} epochs, more than max_epoch "
            f"{last}: give at least that many, another --asr_tag (or --lm_tag), or "
            "--force true to train anew and keep the longer training aside"
        )


def put_aside(exp: Path) -> Path:
    names = (exp.with_name(f"{exp.name}.{number}") for number in count(1))
    return exp.rename(next(path for path in names if not path.exists()))


def kept(exp: Path, record: Mapping) -> Path | None:
    """The latest of the trainings put aside that depended on what this one does."""
    name = re.compile(rf"{re.escape(exp.name)}\.\d+")
    same = [
        path
        for path in exp.parent.glob("*")
        if name.fullmatch(path.name)
        and (begun := stage.read(path / BEGUN))
        and not restarts(begun, record)
    ]
    return max(same, key=lambda path: (path / BEGUN).stat().st_mtime, default=None)


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
    if (exp / SAVED).exists():
        shutil.copyfile(exp / SAVED, checkpoint)
    elif checkpoint.exists() and not zipfile.is_zipfile(checkpoint):
        say(f"  {checkpoint} is damaged: the training starts anew")
        checkpoint.unlink()
    elif checkpoint.exists() and not os.path.lexists(exp / "latest.pth"):
        # ESPnet would go on without that epoch's model, and miss it when it averages
        say("  the first epoch was not finished: the training starts anew")
        checkpoint.unlink()


class View:
    """Follows the log of a training and tells the user how it goes."""

    def __init__(self, log: Path):
        self.log = log
        self.tail = Tail(log)
        self.epoch = self.epochs = self.batches = 0
        self.seconds: list[float] = []
        self.told = time.monotonic()
        self.broken = False

    def update(self) -> None:
        """Reads what is new in the log."""
        for line in self.tail.lines():
            self.read(line)

    def read(self, line: str) -> None:
        if found := re.search(r"Total Number of model parameters: ([\d.]+ \w)", line):
            self.tell(f"the model has {found[1]} parameters")
        elif found := re.search(r"was resumed using (\S+)", line):
            self.tell(f"continuing from {found[1]}")
        elif found := re.search(r"\[train\].* N-batch=(\d+)", line):
            self.batches = int(found[1])
        elif found := re.search(r"(\d+)/(\d+)epoch started", line):
            self.epoch, self.epochs = int(found[1]), int(found[2])
        elif found := re.search(r"epoch:train:\d+-(\d+)batch: .*\bloss=([^,]+)", line):
            self.within(int(found[1]), found[2])
        elif epoch := epochs.parse(line):
            self.finished(epoch)
        elif "best model has been updated" in line or "no improvements" in line:
            save(self.log.parent)
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
            ("acc", epoch.valid.get("acc")),
            ("CER of CTC", epoch.valid.get("cer_ctc")),
        ]
        values = [f"{name} {value:.3g}" for name, value in shown if value is not None]
        times = [timespan(epoch.seconds), f"{timespan(left)} left"]
        self.tell(f"epoch {epoch.number}/{self.epochs}: {', '.join(values + times)}")

    def tell(self, message: str) -> None:
        self.told = time.monotonic()
        say(f"  {message}")
