"""What is finished stays finished: each step records what it was made from."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_file
from espnet_srupp.recipe.locks import Done, Locks
from espnet_srupp.recipe.progress import say, timespan

# its tables and pictures are of all decodings, so that any run.sh makes them again
SCORING = 13


@dataclass(frozen=True)
class Step:
    """One piece of work of a stage.

    Attributes:
        number: of the stage, as in asr.sh.
        name: what people read.
        work: makes the outputs, each whole or not at all.
        outputs: what the work leaves; the record lies beside the first of them.
        inputs: files whose content it depends on.
        options: settings it depends on, by the name that people know.
        audio: a wav.scp whose audio files it depends on, by their size and time.
        check: raises if the work cannot begin, while everything is as it was.
        reads: first outputs of other steps, such as folders with audio, that another
            run.sh must leave as they are while this one is at work.
    """

    number: int
    name: str
    work: Callable[[], None]
    outputs: Sequence[Path]
    inputs: Sequence[Path] = ()
    options: dict[str, object] = field(default_factory=dict)
    audio: Path | None = None
    check: Callable[[], None] = lambda: None
    reads: Sequence[Path] = ()

    @property
    def marker(self) -> Path:
        return marker(self.outputs[0])

    @property
    def title(self) -> str:
        return f"stage {self.number}: {self.name}"

    def tell(self, message: str) -> None:
        say(f"{self.title}: {message}")

    def record(self) -> dict:
        """What the outputs are made from: settings as text, files as hashes."""
        for path in self.inputs:
            if not path.is_file():
                raise RecipeError(
                    f"stage {self.number} ({self.name}) needs {path}, which is not "
                    "there: write it if the data are your own, else run the stages "
                    "before it, e.g. with --stage 1"
                )
        inputs = {str(path): digest(path) for path in self.inputs}
        if self.audio:
            inputs[f"audio in {self.audio}"] = digest_audio(self.audio)
        options = {name: str(value) for name, value in self.options.items()}
        return {"options": options, "inputs": inputs}


def marker(output: Path) -> Path:
    """The record of what the first output of a step is made from."""
    # without the stage: what two stages can make is of the last of them
    return output.parent / f".{output.name}.made"


def digest_audio(scp: Path) -> str:
    """Hash of the names, sizes and times of the audio files in a wav.scp."""
    result = hashlib.blake2b(digest_size=16)
    # as bytes: what is not UTF-8 is told by who reads the file
    for line in scp.read_bytes().split(b"\n"):
        path = b"".join(line.split(None, 1)[1:]).strip()
        if os.path.exists(path):
            found = os.stat(path)
            result.update(b"%s %d %d\n" % (path, found.st_size, found.st_mtime_ns))
    return result.hexdigest()


def digest(path: Path) -> str:
    """Hash of a file's content."""
    result = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            result.update(block)
    return result.hexdigest()


def write(path: Path, record: dict) -> None:
    with atomic_file(path) as file:
        # in the order of the step, see `difference`
        json.dump(record, file, indent=1)


def read(path: Path) -> dict | None:
    """The record there, None where there is none (or a damaged one)."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def difference(old: dict, new: dict) -> str:
    """Says in words what is not as it was, "" when nothing is.

    Inputs are told apart by their place among them: a folder may be named otherwise.
    """
    changes = []
    before, after = old.get("options", {}), new["options"]
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        # what has passed as strict is the same without
        if was != now and not (name == "strict" and now is None):
            changes.append(f"{name} was {was or 'not set'}, is {now or 'not set'}")
    before, after = old.get("inputs", {}), new["inputs"]
    if list(before.values()) != list(after.values()):
        changed = [n for n, content in after.items() if before.get(n) != content]
        gone = sorted(before.keys() - after.keys())
        moved = [n for n, m in zip(after, before, strict=False) if n != m]
        changes += [f"{name} has changed" for name in changed]
        changes += [f"{name} is left out" for name in gone]
        if not changed and not gone:
            changes += [f"{name} has another place" for name in moved]
    more = f" and {len(changes) - 2} more changes" if len(changes) > 2 else ""
    return ", ".join(changes[:2]) + more


def outdated(step: Step, record: dict) -> str | None:
    """Why the step must run: "" for the first time, None when it is finished."""
    old = read(step.marker)
    if old is None:
        return ""
    for path in step.outputs:
        if not path.exists():
            return f"{path} is gone"
    return difference(old, record) or None


def pending(step: Step, force: bool) -> dict | None:
    """What the step is to be made from; None, which is told, if it is finished."""
    record = step.record()
    if force or outdated(step, record) is not None:
        return record
    step.tell("done before")
    return None


def run(step: Step, locks: Locks, force: bool = False) -> bool:
    """Does a step unless it is finished and nothing it depends on has changed.

    Args:
        step: what to do.
        locks: of this run.sh, which goes on holding what the step made and read.
        force: do it again though it is finished.

    Returns:
        Whether work was done.

    Raises:
        RecipeError: an input is missing, or the step's check fails; whatever the work
            raises. After that no record is left, and the next run does the step again.
    """
    reads = [marker(path) for path in step.reads]
    keep = step.number != SCORING
    held = partial(locks.held, step.marker, reads, step.tell, keep=keep)
    while True:
        before = read(step.marker)
        # others may read meanwhile what is only looked at
        with held(alone=False):
            if pending(step, force) is None:
                return False
        done = partial(made_since, step, before)
        # who has made it may read it for long, and so can this one
        with suppress(Done), held(alone=True, done=done):
            return work(step, force)


def made_since(step: Step, before: dict | None) -> bool:
    """Whether the step has another record than it had before."""
    return read(step.marker) not in (before, None)


def work(step: Step, force: bool) -> bool:
    """Does it, unless another run.sh has meanwhile; returns whether it did."""
    if (record := pending(step, force)) is None:
        return False
    why = outdated(step, record)
    say(f"{step.title}, again, as {why}" if why else step.title)
    step.check()
    step.marker.unlink(missing_ok=True)
    start = time.monotonic()
    step.work()
    write(step.marker, record)
    seconds = time.monotonic() - start
    if seconds >= 1:
        say(f"  done in {timespan(seconds)}")
    return True
