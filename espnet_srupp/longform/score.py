"""Error rates by length of the utterance, of one or more models.

REFERENCE is a data directory; each MODEL=RESULTS is a name and a decoded set: a `text`
file, or the folder that holds it. Prints a table, and writes scores.md, scores.json,
scores.csv and differences.csv to the folder of --out. A bin is scored for the models
that have decoded some of it, on the utterances that all of these have; what a model
lacks is named. Where a `longform.jsonl` lies beside `text`, the table also has the
real-time factor and peak memory; each line of that file is
{"utterance": ID, "audio_seconds": X, "computing_seconds": X, "peak_bytes": N}.

Several references, each followed by the results of the same models, are scored one by
one and not by length: each is a bin, named after its folder. This compares the same
utterances as they are and joined by 3 and by 10.
"""

import argparse
import math
import sys
from contextlib import redirect_stdout
from pathlib import Path

import espnet_srupp
from espnet_srupp.longform import cells, lengths, sets, table, usage
from espnet_srupp.longform.cells import Result, Utterance
from espnet_srupp.longform.counting import Pair, tally
from espnet_srupp.longform.sets import Set
from espnet_srupp.longform.table import Scores
from espnet_srupp.recipe import datadir, files, scoring
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import cores
from espnet_srupp.recipe.parallel import parallel_map

BINS = "0,10,20,30,40,60,120,300,900,3600"


def options(parser: argparse.ArgumentParser) -> None:
    """The command line of `score`."""
    add = parser.add_argument
    add(
        "sets",
        metavar="REFERENCE MODEL=RESULTS",
        nargs="+",
        help="data directory, then each model's name and what it made of it",
    )
    add("--out", metavar="DIR", type=Path, help="folder to write to, default: none")
    add(
        "--bins",
        metavar="S,S,...",
        help="lengths in seconds at which bins begin, for a single REFERENCE "
        f"(default: {BINS}); bins without utterances are left out",
    )
    add("--case", action="store_true", help="tell upper from lower case")
    add(
        "--samples",
        metavar="N",
        type=int,
        default=10000,
        help="draws of bootstrap and significance test (default: %(default)s)",
    )
    add("--seed", metavar="N", type=int, default=0, help="of these draws (default: 0)")
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
    edges = read_bins(BINS if given.bins is None else given.bins)
    check(given)
    decoded = sets.read(given.sets)
    if given.bins is not None and len(decoded) > 1:
        raise RecipeError("--bins is for a single REFERENCE: leave it out")
    problems: list[str] = []
    # the table alone goes to standard output, also where progress is told by lines
    with redirect_stdout(sys.stderr):
        bins = {each.reference.name: compare(each, given, problems) for each in decoded}
        if len(decoded) == 1:
            (utterances,) = bins.values()
            bins = cells.by_length(utterances, edges)
        found = cells.score(bins, given.samples, given.seed)
    scores = Scores(settings(given, decoded), problems, *found)
    if given.out is not None:
        table.write(scores, given.out)
    print(table.markdown(scores))
    if problems:
        raise RecipeError(*problems)


def check(given: argparse.Namespace) -> None:
    for name, least in (("samples", 1), ("seed", 0), ("fs", 1), ("nj", 1)):
        value = getattr(given, name)
        if value is not None and value < least:
            raise RecipeError(f"--{name} {value} is not {least} or more: correct it")
    if given.out is not None:
        files.claim(given.out)


def settings(given: argparse.Namespace, decoded: list[Set]) -> dict:
    """What was asked for."""
    models = {
        model: ", ".join(str(each.models[model]) for each in decoded)
        for model in decoded[0].models
    }
    return {
        "reference": ", ".join(str(each.reference) for each in decoded),
        "models": models,
        **{name: getattr(given, name) for name in ("case", "samples", "seed")},
        "version": espnet_srupp.__version__,
    }


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


def compare(
    each: Set, given: argparse.Namespace, problems: list[str]
) -> list[Utterance]:
    """Counts errors in what models have decoded; adds the rest to `problems`."""
    data = datadir.read(each.reference)
    texts = {m: scoring.read_hypotheses(path) for m, path in each.models.items()}
    problems += sets.left_out(data, each, texts)
    seconds = lengths.seconds(data, each.reference, given.fs)
    heard = {model: [u for u in data.text if u in t] for model, t in texts.items()}
    if not any(heard.values()):
        raise RecipeError(
            f"no utterance of {each.reference} is in the results of any model: check "
            "that they are the same set"
        )
    jobs = [
        Pair(data.text[u], texts[model][u], given.case)
        for model, some in heard.items()
        for u in some
    ]
    tallies = iter(parallel_map(tally, jobs, given.nj, "alignment", "texts"))
    results: dict[str, dict] = {u: dict.fromkeys(texts) for u in data.text}
    for model, some in heard.items():
        used = usage.read(each.models[model].with_name(usage.NAME))
        for utterance in some:
            results[utterance][model] = Result(next(tallies), used.get(utterance))
    sources = independent(data)
    return [Utterance(sources[u], seconds[u], some) for u, some in results.items()]


def independent(data: DataDir) -> dict[str, str]:
    """What each utterance comes from: its speaker, or, of a single one, its recording.

    Errors are alike in all that a speaker says: who takes parts of it for independent
    is far too sure (benchmarks/interval_coverage.py).
    """
    if len(set(data.utt2spk.values())) > 1:
        return data.utt2spk
    if data.segments is None:
        return {utterance: utterance for utterance in data.text}
    return {u: recording for u, (recording, _, _) in data.segments.items()}
