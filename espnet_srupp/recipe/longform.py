"""Joined utterances: made for stages 2 and 15, transcribed and scored in stage 15.

Each piece is done by a command of espnet_srupp.longform, run as a program.
"""

import csv
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from espnet_srupp.recipe import config, experiment, process
from espnet_srupp.recipe.datadir import tables
from espnet_srupp.recipe.durations import check_filter
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.faults import LIMIT, Faults
from espnet_srupp.recipe.layout import Layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.process import Job, Tail
from espnet_srupp.recipe.progress import say
from espnet_srupp.recipe.stage import Step
from espnet_srupp.recipe.table import read_table

# what `join`, `transcribe`, `score` and `plot` leave
PROVENANCE = "provenance.csv"
RESULTS = ("text", "longform.jsonl")
SCORES = ("scores.md", "scores.json", "scores.csv", "differences.csv")
UNITS = ("wer", "cer")
PICTURES = tuple(
    f"{unit}_{name}.{suffix}"
    for unit in UNITS
    for name in ("by_length", "errors")
    for suffix in ("png", "svg")
)
# how recipe.progress tells of a tenth of the way
PROGRESS = re.compile(r"  .+: [\d.]+/[\d.]+ \w+")
OURS = shlex.quote(sys.executable)


def models(options: Options, names: Layout) -> dict[str, Path]:
    """The experiments to compare, by the names that table and pictures show.

    This one comes first and is called as its encoder, unless --longform_models has it.

    Raises:
        RecipeError: this one is not trained, or another has its name.
    """
    others = {name: Path(folder) for name, folder in options.others.items()}
    if names.exp.resolve() in (folder.resolve() for folder in others.values()):
        return others
    settings = names.exp / "config.yaml"
    if not settings.is_file():
        raise RecipeError(f"{settings} is not there: train the model with --stage 11")
    name = config.load(settings).get("encoder", "rnn")
    if name in others:
        raise RecipeError(
            f"--longform_models has a {name} as well: name both there, "
            f'"{name}={names.exp} other={others[name]}"'
        )
    return {name: names.exp} | others


def joined(source: Path, number: int) -> Path:
    """The data directory of recordings of so many utterances each."""
    return source.with_name(f"{source.name}_long") / f"{number}x"


def joining(number: int, options: Options, source: Path, utterances: int) -> Step:
    """The step of a stage that joins utterances of a data directory."""
    # a test set compares only as a whole
    testing = number == 15
    return Step(
        number,
        f"utterances of {source} joined by {utterances}",
        partial(join, options, source, utterances, testing or options.strict),
        [joined(source, utterances)],
        tables(source),
        options.some("longform_join_args") | ({} if testing else options.strictness),
        audio=source / "wav.scp",
        check=partial(check_filter, source, False),
        reads=[source],
    )


def join(options: Options, source: Path, number: int, strict: bool) -> None:
    """Joins the utterances of a set.

    Args:
        options: of the recipe.
        source: the set.
        number: utterances each.
        strict: stop at an utterance that cannot be joined, instead of leaving it out.

    Raises:
        RecipeError: `join` failed, too much is bad, or no recording has so many
            utterances.
    """
    target = joined(source, number)
    provenance = target / PROVENANCE
    # of other utterances; what a kill has left of the folder is none of `join`'s
    shutil.rmtree(target, ignore_errors=True)
    words = [
        *("join", str(source), str(target), "--num-utts", str(number)),
        *("--nj", str(options.nj), *shlex.split(options.longform_join_args)),
    ]
    log = target.with_name(f"{target.name}.log")
    try:
        run(words, log)
    except RecipeError as error:
        # with bad utterances it fails as well, once it has joined the others
        if "--group" in str(error):
            raise RecipeError(
                f"{error} (by --longform_join_args \"--group '()'\", say)"
            ) from error
        if strict or not provenance.exists():
            raise
    with open(provenance, encoding="utf-8", newline="") as file:
        utterances = Counter(row["recording"] for row in csv.DictReader(file))
    faults: Faults = {}
    total = len(read_table(source / "text", faults).keys() | faults.keys())
    if (lost := total - utterances.total()) > LIMIT * total:
        raise RecipeError(
            f"{lost} of {total} utterances of {source} cannot be joined, more than a "
            f"tenth: mend them (log: {log})"
        )
    if lost:
        say(f"  {lost} of {total} utterances of {source} are not joined (log: {log})")
    if (most := max(utterances.values())) < number:
        raise RecipeError(
            f"{source} has no {number} utterances that belong together, but {most}: "
            "leave that out of --longform, or join what does not belong together by "
            "--longform_join_args \"--group '()'\""
        )


def language_model(options: Options, names: Layout) -> Path | None:
    """The checkpoint of the one that `transcribe` is to use, if it is."""
    search = dict(config.arguments(options.longform_args)).get("search", "greedy")
    takes = options.use_lm and search != "greedy"
    return experiment.lm_file(options, names.lm_exp) if takes else None


def transcribe(
    options: Options, exp: Path, lm: Path | None, reference: Path, target: Path
) -> None:
    """Lets the model of an experiment transcribe joined utterances.

    What an interrupted run has transcribed is not done again.

    Args:
        options: of the recipe.
        exp: the experiment.
        lm: as `language_model` has it.
        reference: what `join` made.
        target: the folder for the results.

    Raises:
        RecipeError: `transcribe` failed and left no results.
    """
    words = [
        *("transcribe", str(exp), str(reference), "--out", str(target)),
        *("--checkpoint", options.inference_asr_model),
        *("--device", "cuda" if options.gpu_inference else "cpu"),
        *(["--lm", str(lm)] if lm else []),
        *(["--force"] if options.force else []),
        *shlex.split(options.longform_args),
    ]
    say("  ESPnet is starting")
    log = target.with_name(f"{target.name}.log")
    # what an earlier one left is no result of this one; of each recording it stays
    for name in RESULTS:
        (target / name).unlink(missing_ok=True)
    tail = Tail(log)
    try:
        run(words, log, options.python, lambda: show(tail))
    except RecipeError as error:
        # it has transcribed what it could, as where one recording is too long for it
        if not (target / RESULTS[0]).exists():
            raise
        say(f"  {error}: going on without")


def score(options: Options, results: dict[Path, dict[str, Path]], target: Path) -> None:
    """Scores each reference's results by model, into one table.

    Raises:
        RecipeError: `score` failed and left no scores.
    """
    words = ["score", "--out", str(target), "--nj", str(options.nj)]
    words += ["--case"] if options.score_opts == "-s" else []
    for reference, found in results.items():
        words.append(str(reference))
        words += [f"{name}={path}" for name, path in found.items()]
    for name in SCORES:
        (target / name).unlink(missing_ok=True)
    try:
        run(words, target / "score.log")
    except RecipeError as error:
        # results that are missing it tells at its end, in scores.md too
        if not (target / SCORES[0]).exists():
            raise
        say(f"  {error}")


def draw(target: Path) -> None:
    """Draws what `score` has written to a folder."""
    for unit in UNITS:
        words = ["plot", str(target / "scores.json"), "--out", str(target)]
        run([*words, "--unit", unit], target / "plot.log")


def run(
    words: Sequence[str],
    log: Path,
    python: str = OURS,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Runs a command of espnet_srupp.longform."""
    # by the full name, as espnet_srupp.run looks for a module with a main()
    job = Job(["-m", "espnet_srupp.longform.__main__", *words], log)
    process.run([job], python, watch)


def show(tail: Tail) -> None:
    """Shows what a program tells of its progress."""
    for line in tail.lines():
        if PROGRESS.fullmatch(line):
            print(line, flush=True)


def table(path: Path, unit: str) -> str:
    """The part of scores.md on error rates by words or by characters."""
    _, _, rest = path.read_text("utf-8").partition(f"## {unit.upper()}\n\n")
    return rest.partition("\n## ")[0]
