"""run.sh: from a corpus to RESULTS.md, stage by stage as ESPnet's asr.sh."""

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from espnet_srupp.children import end_as_by_interrupt
from espnet_srupp.recipe import arguments, config, stage
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import full_disk_named
from espnet_srupp.recipe.layout import check_decoding, check_lengths, layout, trainings
from espnet_srupp.recipe.locks import Locks
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.program import exit_code
from espnet_srupp.recipe.progress import say

LAST = 15
LANGUAGE_MODEL, NGRAM = range(6, 9), 9
# done for each --asr_config, the other stages for the last
TRAINED = (10, 11)
# what the options of asr.sh leave out
SKIPS = {
    "skip_data_prep": range(1, 6),
    "skip_train": (2, *range(4, 12)),
    "skip_eval": (12, 13),
    "skip_packing": (14,),
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""

    def work() -> None:
        given = arguments.parse(
            sys.argv[1:] if words is None else words,
            Path(os.environ.get("OLDPWD", ".")),
        )
        # what is not written by way of files.py: logs, pictures, copies
        with full_disk_named(Path(given.expdir)):
            run(given)

    return exit_code(work, "finished work is kept, the same command goes on from there")


def run(given: Options) -> None:
    """Runs the stages that the options ask for."""
    numbers = chosen(given)
    if given.use_lm and 12 in numbers:
        check_weight(given)
    # importing torch takes seconds, which a wrong option need not wait for
    from espnet_srupp.recipe import check
    from espnet_srupp.recipe.stages import STAGES

    *before, given = trainings(given)
    for each in (*before, given):
        check_lengths(layout(each))
    if given.check:
        return check.run([*before, given])
    look_ahead([*before, given], numbers)
    with Locks(given.roots) as locks:
        for number in numbers:
            for each in [*(before if number in TRAINED else ()), given]:
                for step in STAGES[number](each, layout(each)):
                    stage.run(step, locks, given.force)


def look_ahead(chain: Sequence[Options], numbers: Collection[int]) -> None:
    """Looks for what would end a later stage, before hours or days of others.

    Args:
        chain: the options of each --asr_config.
        numbers: the stages to run.

    Raises:
        RecipeError: there is something.
    """
    from espnet_srupp.recipe import data_stages, decoding, rehearsal, settings, training

    given, names = chain[-1], layout(chain[-1])
    anew = not names.exp.exists()
    if {7, 11} & {*numbers} and anew:
        training.gpus(given)
    if {*TRAINED} & {*numbers}:
        for each in chain:
            settings.check(each)
    if 12 in numbers:
        check_decoding(names)
        decoding.check_gpu(given)
        decoding.check_model(given)
    if 1 in numbers:
        data_stages.module(given)
    if 11 in numbers and anew:
        rehearsal.check(chain, numbers)


def chosen(given: Options) -> list[int]:
    """The numbers of the stages to run.

    Raises:
        RecipeError: there is no such stage.
    """
    absent = {NGRAM} if given.use_lm else {*LANGUAGE_MODEL, NGRAM}
    left_out = absent | {*given.skips}
    if not given.longform:
        left_out.add(LAST)
    for name, numbers in SKIPS.items():
        if getattr(given, name):
            left_out |= set(numbers)
    asked = range(max(given.stage, 1), min(given.stop_stage, LAST) + 1)
    check_asked(given, asked, absent)
    left = [n for n in asked if n not in left_out]
    if not left:
        say(
            f"nothing to do from stage {asked[0]} to {asked[-1]}: packing needs "
            "--skip_packing false, and other stages that no --skip option names them"
        )
    return left


def check_asked(given: Options, asked: range, absent: set[int]) -> None:
    """Raises RecipeError where the stages that are asked for are not there."""
    if given.stage > given.stop_stage:
        raise RecipeError(
            f"--stage {given.stage} is after --stop_stage {given.stop_stage}: swap them"
        )
    if not asked:
        raise RecipeError(
            f"--stage {given.stage} --stop_stage {given.stop_stage} is no stage: they "
            f"go from 1 to {LAST}"
        )
    if set(asked) <= absent:
        raise RecipeError(
            "stages 6 to 8 (a language model) need --use_lm true, and stage 9 "
            "(n-grams) is not there: give --use_lm true, or go on with --stage 10"
        )
    if asked[0] == LAST and not given.longform:
        raise RecipeError(
            "stage 15 needs --longform, how many utterances to join: give for example "
            '--longform "1 3 10 30"'
        )


def check_weight(given: Options) -> None:
    """Checks that the language model counts, before hours of training it.

    Raises:
        RecipeError: the decoding gives it the weight 0.
    """
    settings = config.read(given.inference_config, given.inference_args)
    if config.number(settings, "lm_weight", 1) == 0:
        overridden = "lm_weight" in dict(config.arguments(given.inference_args))
        where = "--inference_args" if overridden else given.inference_config
        raise RecipeError(
            f"lm_weight is 0 in {where}, so --use_lm true has no effect: give "
            "--inference_args '--lm_weight 0.3', or an --inference_config made for "
            "language models"
        )


if __name__ == "__main__":
    end_as_by_interrupt()
    sys.exit(main())
