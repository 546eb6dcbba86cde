"""What a benchmark ran on, written beside its figures; and kinds of arguments."""

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from espnet_srupp.recipe.program import exit_code


def run(main: Callable[[], None]) -> NoReturn:
    """Runs a script, which ends as the package's programs do."""
    sys.exit(
        exit_code(
            main, "what was measured before is in the file of --json, if one was given"
        )
    )


def parser(description: str) -> argparse.ArgumentParser:
    """A command line whose help begins with a script's description, as it stands."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def describe(*packages: str) -> dict[str, str]:
    """Command, date, commit, processor and versions of Python and `packages`."""
    commit = _git("rev-parse", "--short", "HEAD")
    # written by a run before, results change nothing of what the next one measures
    others = ":/", ":(top,exclude)benchmarks/results"
    status = _git("status", "--porcelain", "-uno", "--", *others)
    changed = " with changes" if status else ""
    return {
        "command": command(sys.argv),
        "date": datetime.date.today().isoformat(),
        "commit": commit + changed or "unknown",
        "processor": _processor(),
        "python": platform.python_version(),
    } | {name: importlib.metadata.version(name) for name in packages}


def command(words: Sequence[str]) -> str:
    """A command line from here, without the files that only take its results."""
    script, *words = words
    kept, words = [os.path.relpath(script)], iter(words)
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in ("--json", "--picture"):
            kept.append(word)
        elif not equals:
            next(words)
    return shlex.join(["python3", *kept])


def write(report: dict, path: Path | None) -> None:
    """Writes a report as JSON, if there is a file to write it to."""
    if path:
        path.write_text(json.dumps(report, indent=2) + "\n")


def readable(word: str) -> Path:
    """An argument that is a file to read."""
    path = Path(word)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {word}")
    return path


def writable(word: str) -> Path:
    """An argument that is a file to write, tried before anything is measured."""
    path = Path(word)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{word} cannot be written: {error.strerror}"
        ) from error
    return path


def picture(word: str) -> Path:
    """An argument that is a picture to write."""
    if not word.lower().endswith((".png", ".svg")):
        raise argparse.ArgumentTypeError(f"{word} does not end in .png or .svg")
    return writable(word)


def named(word: str) -> tuple[str, str]:
    """An argument NAME=PATH."""
    name, _, path = word.partition("=")
    if not (name and path):
        raise argparse.ArgumentTypeError(f"{word} is not NAME=PATH")
    return name, path


def add_named(parser: argparse.ArgumentParser, dest: str, metavar: str) -> None:
    """Adds arguments NAME=PATH, which make a dict."""
    parser.add_argument(dest, metavar=metavar, nargs="+", type=named, action=ByName)


class ByName(argparse.Action):
    """Makes a dict of names and paths, of which no two have one name."""

    def __call__(self, parser, namespace, pairs, option_string=None) -> None:
        for name, times in Counter(name for name, _ in pairs).items():
            if times > 1:
                raise argparse.ArgumentError(
                    self, f"the name {name} is given {times} times: give each its own"
                )
        setattr(namespace, self.dest, dict(pairs))


def above_zero(word: str) -> float:
    """An argument that is an amount of something."""
    try:
        number = float(word)
    except ValueError:
        number = 0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{word} is not a number above 0")
    return number


def positive(word: str) -> int:
    """An argument that counts something."""
    if not word.isdecimal() or int(word) == 0:
        raise argparse.ArgumentTypeError(f"{word} is not 1 or more")
    return int(word)


def _git(*arguments: str) -> str:
    """What git says; nothing where it is missing or knows no repository."""
    if shutil.which("git") is None:
        return ""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout[:-1] if done.returncode == 0 else ""


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    names = re.findall(r"model name\s*: (.*)", text) or [platform.processor()]
    wide = " AVX-512" if "avx512f" in text else ""
    wide += " AVX512-BF16" if "avx512_bf16" in text else ""
    wide += " AMX" if "amx_bf16" in text else ""
    return f"{os.cpu_count()} x {names[0]}{wide}"
