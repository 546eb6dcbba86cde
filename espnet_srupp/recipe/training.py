"""Stages 7 and 11: training, shown epoch by epoch, continued after an interrupt."""

import re
import shlex
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import torch

from espnet_srupp.recipe import (
    alphas,
    commands,
    config,
    epochs,
    init_param,
    pictures,
    process,
    stage,
)
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.locks import Locks
from espnet_srupp.recipe.options import Options, cores
from espnet_srupp.recipe.process import Job
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.view import View

# a training goes on when these change; with anything else it is another training
CONTINUES = (
    "max_epoch",
    "patience",
    "num_workers",
    "log_interval",
    "num_att_plot",
    "encoder_conf.gradient_checkpointing",
)
MAX_EPOCH = 40  # ESPnet's default
# what the training depends on; who decodes with its models holds it, see put_aside
BEGUN = ".training"


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
        RecipeError: there is no such GPU, the training is past max_epoch, its
            checkpoint is damaged, ESPnet failed, or no gradient was finite.
    """
    ngpu = gpus(options)
    if anew(options, exp, record):
        before = None if options.force else kept(exp, record)
        if has_epoch(exp) or before and exp.exists():
            say(f"  the earlier training is kept as {put_aside(exp, options.roots)}")
        if before:
            say(f"  {before}, which had these settings, goes on as {exp}")
            before.rename(exp)
    check_last(exp, record)
    forget(exp)
    stage.write(exp / BEGUN, {**record, "machine": machine(options, ngpu)})
    view = View(exp / "train.log")
    say(f"  ESPnet is starting on {place(options, ngpu)}, log: {view.log}")
    job = Job(command(ngpu), view.log)
    if options.launched:
        # the launcher puts an older train.log aside and begins one
        words = commands.launched(options, exp, ngpu, job.arguments)
        job = Job(words, exp / "launch.log")
    shares = max(1, ngpu)
    with elsewhere_told(options, ngpu):
        process.run([job], options.python, view.update, append=True, shares=shares)
    if view.broken:
        raise RecipeError(
            f"no step of epoch {view.epoch} had a finite gradient, so ESPnet stopped: "
            f"lower the learning rate in its YAML (log: {view.log})"
        )
    pictures.curves(exp)


@contextmanager
def elsewhere_told(options: Options, ngpu: int) -> Iterator[None]:
    """Says, when a launched training is broken off, that it may run on."""
    try:
        yield
    except BaseException:
        if options.launched:
            # neither ssh nor slurm.pl ends what it has started elsewhere
            say(
                f"  THE TRAINING MAY STILL RUN on {place(options, ngpu)}: end it there "
                "(scancel, kill) before you give this command again"
            )
        raise


def check(
    options: Options, exp: Path, record: Mapping, begins: Sequence[str] = ()
) -> None:
    """Sees that a training can begin or go on.

    Raises:
        RecipeError: there is no such GPU, the training is past max_epoch, its
            checkpoint is damaged, it would put aside a file that it needs, such as the
            model to begin with, or `begins` are no parameters (`init_param.check`).
    """
    gpus(options)
    if not anew(options, exp, record):
        return check_last(exp, record)
    for needed in record["inputs"]:
        if exp.resolve() in Path(needed).resolve().parents:
            raise RecipeError(
                f"this training needs {needed}, but would put aside {exp}, where that "
                "lies: give the training another name by --asr_tag (or --lm_tag)"
            )
    if before := None if options.force else kept(exp, record):
        return check_last(before, record)
    init_param.check(begins)


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
    found = gpus_here()
    if options.ngpu > found:
        raise RecipeError(
            f"--ngpu {options.ngpu}: torch finds {found or 'no'} GPU here: give --ngpu "
            f"{found}"
        )
    return min(found, 1) if options.ngpu < 0 else options.ngpu


def gpus_here() -> int:
    """The number of GPUs of this machine that torch can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def place(options: Options, ngpu: int) -> str:
    """Where the training runs, in words."""
    devices = f"{ngpu} GPU{'s' if ngpu > 1 else ''}" if ngpu else "the CPU"
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


def forget(exp: Path) -> None:
    """Puts aside what tells of epochs whose models were removed."""
    if not has_epoch(exp) and epochs.read(epochs.logs(exp)):
        for path in (*epochs.files(exp), exp / alphas.NAME):
            if path.exists():
                path.rename(path.with_name(f"{path.name}.old"))


def check_last(exp: Path, record: Mapping) -> None:
    """Sees that a training can go on from where the last one ended.

    Raises:
        RecipeError: it has more epochs than it is to have, or its checkpoint is
            damaged, as a copy that was cut off.
    """
    checkpoint = exp / "checkpoint.pth"
    if checkpoint.exists() and not zipfile.is_zipfile(checkpoint):
        raise RecipeError(
            f"{checkpoint} is damaged, so that the training cannot go on: give --force "
            "true to train anew and keep what there is aside"
        )
    trained = epochs.read(epochs.logs(exp)) if has_epoch(exp) else []
    last = config.number(record["options"], "max_epoch", MAX_EPOCH, int)
    if trained and trained[-1].number > last:
        raise RecipeError(
            f"{exp} has trained for {trained[-1].number} epochs, more than max_epoch "
            f"{last}: give at least that many, another --asr_tag (or --lm_tag), or "
            "--force true to train anew and keep the longer training aside"
        )


def put_aside(exp: Path, roots: Sequence[Path] = ()) -> Path:
    """Gives the folder another name, once no other run.sh decodes with its models."""
    names = (exp.with_name(f"{exp.name}.{number}") for number in count(1))
    lock = stage.marker(exp / BEGUN)
    # which no step before a training keeps, see `Locks`
    with Locks(roots).held(lock, [], lambda why: say(f"  {why}"), alone=True):
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
        and not named(path)
    ]
    return max(same, key=lambda path: (path / BEGUN).stat().st_mtime, default=None)


def named(exp: Path) -> bool:
    """Whether a training was begun under the name of its folder, as ESPnet keeps it."""
    settings = config.trained_with(exp / "config.yaml")
    return Path(str(settings.get("output_dir"))).name == exp.name
