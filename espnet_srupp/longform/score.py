"""Error rates by length of the utterance, of one or more models.

REFERENCE is a data directory; each MODEL=RESULTS is a name and a decoded set: a `text`
file, or the folder that holds it. Prints a table, and writes scores.md, scores.json,
scores.csv and differences.csv to the folder of --out. Utterances that not all models
have decoded are named and left out. Where a `longform.jsonl` lies beside `text`, the
table tells real-time factor and peak memory as well; each of its lines is
{"utterance": ID, "audio_seconds": X, "computing_seconds": X, "peak_bytes": N}.
"""

import argparse
import math
import sys
from contextlib import redirect_stdout
from pathlib import Path

import espnet_srupp
from espnet_srupp.longform import cells, lengths, table, usage
from espnet_srupp.longform.cells import Result, Utterance
from espnet_srupp.longform.counting import Pair, tally
from espnet_srupp.longform.groups import shortened
from espnet_srupp.longform.table import Scores
from espnet_srupp.recipe import datadir, scoring
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import cores
from espnet_srupp.recipe.parallel import parallel_map

BINS = "0,10,20,30,40,60,120,300,900,3600"


def options(parser: argparse.ArgumentParser) -> None:
    """The command line of `score`."""
    add = parser.add_argument
    add("reference", metavar="REFERENCE", type=Path, help="data directory")
    add("models", metavar="MODEL=RESULTS", nargs="+", help="a name and a decoded set")
    add("--out", metavar="DIR", type=Path, help="folder to write to, default: none")
    add(
        "--bins",
        metavar="S,S,...",
        default=BINS,
        help="lengths in seconds at which a bin begins (default: %(default)s); bins "
        "without utterances are left out",
    )
    add(
        "--ngram",
        metavar="N",
        type=int,
        default=3,
        help="length of repeated n-grams to look for (default: %(default)s)",
    )
    add("--case", action="store_true", help="upper and lower case differ")
    add(
        "--samples",
        metavar="N",
        type=int,
        default=10000,
        help="of bootstrap and significance test (default: %(default)s)",
    )
    add("--seed", metavar="N", type=int, default=0, help="of both (default: 0)")
    add(
        "--fs",
        metavar="HZ",
        type=int,
        help="sampling rate of utt2num_samples; default: that of the first audio file",
    )
    add(
        "--nj",
        metavar="N",
        type=int,
        default=cores(),
        help="processes (default: %(default)s)",
    )


def run(given: argparse.Namespace) -> None:
    """Scores as the command line says.

    Raises:
        RecipeError: an option or a file is bad; or, once all else is scored and
            written, hypotheses are missing or unknown, with a sentence for each model.
    """
    edges = read_bins(given.bins)
    for name, least in (
        ("ngram", 1),
        ("samples", 1),
        ("seed", 0),
        ("fs", 1),
        ("nj", 1),
    ):
        value = getattr(given, name)
        if value is not None and value < least:
            raise RecipeError(f"--{name} {value} is not {least} or more: correct it")
    models = read_models(given.models)
    data = datadir.read(given.reference)
    texts = {model: read_texts(path) for model, path in models.items()}
    problems = left_out(data, given.reference, models, texts)
    # the table alone goes to standard output, also where progress is told by lines
    with redirect_stdout(sys.stderr):
        seconds = lengths.seconds(data, given.reference, given.fs)
        utterances = compare(data, seconds, models, texts, given)
        bins = cells.by_length(utterances, edges)
        found = cells.score(bins, given.samples, given.seed)
    settings = {
        "reference": str(given.reference),
        "models": {model: str(path) for model, path in models.items()},
        **{name: getattr(given, name) for name in ("ngram", "case", "samples", "seed")},
        "version": espnet_srupp.__version__,
    }
    scores = Scores(settings, problems, *found)
    if given.out is not None:
        table.write(scores, given.out)
    print(table.markdown(scores))
    if problems:
        raise RecipeError(*problems)


def read_bins(words: str) -> list[float]:
    """Reads "0,10,20"; a bin from 0 on is there in any case."""
    try:
        edges = [float(word) for word in words.split(",")]
    except ValueError:
        edges = [math.nan]
    if edges != sorted(set(edges)) or not all(0 <= e < math.inf for e in edges):
        raise RecipeError(
            f"--bins {words} are not rising numbers of seconds: give them like {BINS}"
        )
    return edges if edges[0] == 0 else [0.0, *edges]


def read_models(words: list[str]) -> dict[str, Path]:
    """Reads MODEL=RESULTS; of a folder the file `text` inside."""
    models: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise RecipeError(
                f"'{word}' is not MODEL=RESULTS: give for example srupp=DIR"
            )
        if name in models:
            raise RecipeError(f"the model {name} is there twice: name one differently")
        models[name] = Path(path) / "text" if Path(path).is_dir() else Path(path)
        if not models[name].is_file():
            raise RecipeError(
                f"{models[name]} is missing: give a file of results for {name}, or the "
                "folder that holds its text"
            )
    return models


def read_texts(path: Path) -> dict[str, str]:
    """Reads hypotheses; a file without any is legal."""
    try:
        texts = scoring.read_hypotheses(path)
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8: convert it with iconv") from error
    # what an empty file is read as
    return {utterance: text for utterance, text in texts.items() if utterance}


def left_out(
    data: DataDir,
    reference: Path,
    models: dict[str, Path],
    texts: dict[str, dict[str, str]],
) -> list[str]:
    """A sentence on what each model lacks and has too much."""
    problems = []
    for model, found in texts.items():
        if missing := sorted(data.text.keys() - found.keys()):
            problems.append(
                f"{shortened(missing)} not in {models[model]}: left out for all "
                "models, decode again to score them"
            )
        if unknown := sorted(found.keys() - data.text.keys()):
            problems.append(
                f"{shortened(unknown)} in {models[model]} and not in "
                f"{reference / 'text'}: left out, check that both are the same set"
            )
    return problems


def compare(
    data: DataDir,
    seconds: dict[str, float],
    models: dict[str, Path],
    texts: dict[str, dict[str, str]],
    given: argparse.Namespace,
) -> list[Utterance]:
    """Counts errors in what all models have decoded."""
    common = [u for u in data.text if all(u in found for found in texts.values())]
    if not common:
        raise RecipeError(
            f"no utterance of {given.reference} is in the results of all models: check "
            "that they are the same set"
        )
    jobs = [
        Pair(data.text[u], found[u], given.ngram, given.case)
        for found in texts.values()
        for u in common
    ]
    tallies = iter(parallel_map(tally, jobs, given.nj, "alignment", "texts"))
    results: dict[str, dict[str, Result]] = {u: {} for u in common}
    for model in texts:
        used = usage.read(models[model].with_name(usage.NAME))
        for utterance in common:
            results[utterance][model] = Result(next(tallies), used.get(utterance))
    recordings = {u: u for u in common}
    if data.segments is not None:
        recordings = {u: data.segments[u][0] for u in common}
    return [Utterance(recordings[u], seconds[u], results[u]) for u in common]
