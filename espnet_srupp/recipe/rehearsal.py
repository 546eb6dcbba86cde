"""Whether ESPnet takes the configurations at all, told before any data are made.

usage: python3 -m espnet_srupp.run -m espnet_srupp.recipe.rehearsal PROGRAM ...

reads the arguments of a program as it would, and ends.
"""

import argparse
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from espnet_srupp.recipe import commands, config, init_param, process
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.locks import alone
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.process import Job
from espnet_srupp.recipe.progress import say

ITSELF = ("-m", "espnet_srupp.recipe.rehearsal")
LONGFORM = "espnet_srupp.longform"


def main() -> None:
    """Reads a command line; a wrong one ends it as it would end the program."""
    name, *words = sys.argv[1:]
    program = import_module(name)
    if hasattr(program, "get_parser"):
        parser = program.get_parser()
    else:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        program.options(parser)
    parser.prog = name
    parser.parse_args(words)


def check(trainings: Sequence[Options], numbers: Collection[int]) -> None:
    """Lets ESPnet make the models and optimizers, and read how to decode.

    Args:
        trainings: the options of each --asr_config.
        numbers: the stages to run.

    Raises:
        RecipeError: ESPnet ends with an error, as it would hours or days later, or a
            training is to begin with parameters that are none (`init_param.check`).
    """
    for each in trainings:
        given = config.read(each.asr_config, each.asr_args)
        begins = init_param.words(each.pretrained_model, given, each.asr_args)
        init_param.check(begins)
    exp = layout(trainings[-1]).exp
    folder = exp.with_name(f"{exp.name}.rehearsal")
    with alone(exp, "rehearsing"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        say("ESPnet is trying the configurations")
        jobs = [
            Job(words, folder / f"{name}.log")
            for name, words in programs(trainings, numbers, folder)
        ]
        process.run(jobs, trainings[-1].python)
        # else the log tells why
        shutil.rmtree(folder)


def programs(
    trainings: Sequence[Options], numbers: Collection[int], folder: Path
) -> Iterator[tuple[str, list[str]]]:
    """The names and arguments of what the stages run."""
    given = trainings[-1]
    names = layout(given)
    names = replace(names, token_list=tokens(given, names.token_list, folder))
    for n, each in enumerate(trainings, 1):
        words = trial("asr_train", folder / f"asr.{n}")
        if each.feats_normalize == "global_mvn":
            # there are no statistics yet
            words += ["--normalize", "none"]
        yield f"asr_train.{n}", words + commands.model(each, names)
    if 7 in numbers:
        words = trial("lm_train", folder / "lm")
        yield "lm_train", words + commands.lm_model(given, names)
    if 12 in numbers:
        _, *words = commands.inference(given, names, folder, folder)
        yield "asr_inference", [*ITSELF, *words]
    places = ["FROM", "TO"]
    if given.train_joined or 15 in numbers:
        words = [*places, "--num-utts", "2", *shlex.split(given.longform_join_args)]
        yield "join", [*ITSELF, f"{LONGFORM}.join", *words]
    if 15 in numbers:
        words = [*places, *shlex.split(given.longform_args)]
        yield "transcribe", [*ITSELF, f"{LONGFORM}.transcribe", *words]


def trial(program: str, output: Path) -> list[str]:
    """A program that trains, up to where its work would begin."""
    words = ["-m", f"espnet2.bin.{program}", "--dry_run", "true", "--ngpu", "0"]
    return [*words, "--output_dir", str(output)]


def tokens(given: Options, known: Path, folder: Path) -> Path:
    """The list of tokens, or one of that size until there is one."""
    if known.exists():
        return known
    path = folder / "tokens.txt"
    pieces = [f"piece{n}" for n in range(given.nbpe)]
    lines = [given.blank, given.oov, *pieces, given.sos_eos]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
