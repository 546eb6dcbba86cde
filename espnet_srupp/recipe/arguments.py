"""The command line of run.sh: read, and its paths found."""

import argparse
import difflib
import os
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby, takewhile
from pathlib import Path

from espnet_srupp.recipe import refusals
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.letters import check_utf8
from espnet_srupp.recipe.options import CORPORA, Options

# what may be given relative to the folder in which run.sh was called
INPUT_FILES = ("archive", "lm_config", "inference_config", "pretrained_model")
# those that a run.sh gives, before what the user gives
CONFIGS = ("asr_config", "lm_config", "inference_config")
HELP = ("-h", "--help")
METAVARS = {str: "TEXT", int: "N", float: "X", bool: "true|false"}
USAGE = "run.sh [--option value ...]"
NOTE = """Stages (except 15) and most options are those of ESPnet's asr.sh. Paths are
relative to the recipe's folder; corpora, and input files that are not there, are sought
in the folder where the command was given. Your own data: recipes/own/asr1/run.sh --OWN
DIR.

stages: 1 data, 2 speed perturbation, 3 format, 4 filter by length, 5 tokens,
        6 statistics, 7 training, 8 perplexity of a language model (--use_lm true),
        10 statistics, 11 training, 12 decoding, 13 scoring, 14 packing,
        15 error rates of utterances joined into long ones (--longform)"""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        raise RecipeError(f"{message} (--help lists the options)")


def boolean(word: str) -> bool:
    if word not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false, not {word!r}")
    return word == "true"


def parser(defaults: Options) -> Parser:
    """The command line, made from the fields of `Options`."""
    result = Parser(
        usage=USAGE,
        description=NOTE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, items in groupby(fields(Options), lambda item: item.metadata["group"]):
        group = result.add_argument_group(name)
        for item in items:
            default = getattr(defaults, item.name)
            shown = str(default).lower() if item.type is bool else default
            told = f" (default: {shown})" if shown != "" else ""
            group.add_argument(
                f"--{item.name}",
                type=boolean if item.type is bool else item.type,
                default=default,
                choices=item.metadata["choices"] or None,
                metavar="|".join(item.metadata["choices"]) or METAVARS[item.type],
                help=(item.metadata["help"] + told).replace("%", "%%"),
            )
    return result


def joined(words: Sequence[str]) -> Iterator[str]:
    """`--name value` as `--name=value`, so that a value may begin with a dash.

    `--name` alone stands for `--name=true` where only true and false are possible.
    """
    alone = {item.name: item.metadata["alone"] for item in fields(Options)}
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word in HELP:
            yield word
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            raise RecipeError(f"unexpected {word!r}: options are --name value")
        if name not in alone:
            raise RecipeError(
                f"unknown option --{name}: "
                + (nearest(name, alone, "--") or "--help lists them")
            )
        if not equals:
            if alone[name] and (not rest or rest[0].startswith("-")):
                value = alone[name]
            elif rest and rest[0] != "--":
                value = rest.popleft()
            else:
                raise RecipeError(f"--{name} needs a value")
        yield f"--{name}={value}"


def nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Asks whether one of the names was meant, "" where none is like it."""
    # below, asr.sh's --feats_type would be like --token_type
    close = difflib.get_close_matches(name, sorted(names), 1, 0.65)
    return f"did you mean {prefix}{close[0]}?" if close else ""


def parse(words: Sequence[str], caller: Path) -> Options:
    """Reads the command line.

    Args:
        words: the arguments of run.sh, later ones win.
        caller: the folder where the command was given.

    Raises:
        RecipeError: an unknown option, a value of the wrong kind, a missing file, or
            two configurations that may be meant.
    """
    words = list(joined(words))
    before = list(takewhile(lambda word: word not in HELP, words))
    options = Options(**vars(parser(Options()).parse_args(before)))
    if before != words:
        # the recipe's values, which its run.sh gives before those of the user
        parser(options).parse_args(["--help"])
    refusals.check(options)
    for name in CONFIGS:
        # the first is the recipe's own
        if sum(word.startswith(f"--{name}=") for word in words) > 1:
            several = name == "asr_config"
            for path in options.asr_configs if several else [getattr(options, name)]:
                check_one(name, path, caller)
    return located(options, caller)


def located(options: Options, caller: Path) -> Options:
    """The options with paths to what is there, each spelt in one way."""
    names = (*INPUT_FILES, *CORPORA)
    given = {n: getattr(options, n) for n in names if getattr(options, n)}
    found = {n: find(n, path, caller) for n, path in given.items()}
    configs = [find("asr_config", path, caller) for path in options.asr_configs if path]
    found["asr_config"] = shlex.join(configs)
    others = [
        f"{name}={os.path.relpath(find('longform_models', folder, caller))}"
        for name, folder in options.others.items()
    ]
    found["longform_models"] = shlex.join(others)
    # spelt in one way, as the records of the stages compare it
    thousands, rest = divmod(options.rate, 1000)
    found["fs"] = f"{options.rate}" if rest else f"{thousands}k"
    texts = [nearer(path, caller) for path in options.lm_texts]
    found["lm_train_text"] = shlex.join(texts)
    for name in ("bpe_train_text", "lm_dev_text", "lm_test_text"):
        found[name] = nearer(getattr(options, name), caller)
    return replace(options, **found)


def find(name: str, path: str, caller: Path) -> str:
    kind = "file" if name in (*INPUT_FILES, "asr_config") else "folder"
    keys = ""
    if name == "pretrained_model":
        # which of its parameters, and for what, may follow the file
        path, colon, keys = path.partition(":")
        keys = colon + keys
    places = [Path(path), caller / path]
    for candidate in reversed(places) if name in CORPORA else places:
        if kind == "file" and candidate.is_file():
            return f"{candidate}{keys}"
        if kind == "folder" and candidate.is_dir():
            folder = os.path.abspath(candidate)
            check_utf8([folder])
            return folder
    told = " or ".join(dict.fromkeys(str(folder) for folder in (Path.cwd(), caller)))
    raise RecipeError(f"--{name} {path}: there is no such {kind} in {told}")


def check_one(name: str, path: str, caller: Path) -> None:
    """Sees that a user's configuration is not taken for the recipe's of that name."""
    here, there = Path(path), caller / path
    if here.is_file() and there.is_file() and here.read_bytes() != there.read_bytes():
        raise RecipeError(
            f"--{name} {path}: there is one in {Path.cwd()} and another in {caller}: "
            "give the absolute path of the one that is meant"
        )


def nearer(path: str, caller: Path) -> str:
    """The path, which a stage may yet make, or that file in the caller's folder."""
    there = caller / path
    return str(there) if there.is_file() and not Path(path).is_file() else path
