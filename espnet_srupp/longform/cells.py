"""Adds up utterances by length: the cells of the table and the models' differences."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from espnet_srupp.longform import resampling, usage
from espnet_srupp.longform.counting import UNITS, Tally
from espnet_srupp.longform.table import ALL, Cell, Difference
from espnet_srupp.longform.usage import Usage
from espnet_srupp.recipe.progress import Progress


@dataclass(frozen=True)
class Result:
    """What a model made of an utterance: its tally by unit, and what it took."""

    tallies: dict[str, Tally]
    used: Usage | None


@dataclass(frozen=True)
class Utterance:
    """An utterance of the reference.

    Attributes:
        source: what its errors are alike in, see `score.independent`.
        seconds: its length.
        results: of each model by name; None where it has not been decoded.
    """

    source: str
    seconds: float
    results: dict[str, Result | None]


def by_length(
    utterances: list[Utterance], edges: list[float]
) -> dict[str, list[Utterance]]:
    """Sorts utterances into bins.

    Args:
        utterances: at least one.
        edges: where each bin begins, in seconds, rising, the first one 0; the last bin
            has no end.

    Returns:
        The utterances of each bin that has some, the shortest first, and of all bins.
    """
    names = [f"{low:g}-{high:g}" for low, high in pairwise(edges)]
    names.append(f"{edges[-1]:g}+")
    bins: dict[str, list[Utterance]] = {name: [] for name in names}
    for utterance in utterances:
        bins[names[bisect_right(edges, utterance.seconds) - 1]].append(utterance)
    return {name: some for name, some in bins.items() if some} | {ALL: utterances}


def score(
    bins: dict[str, list[Utterance]], samples: int, seed: int
) -> tuple[list[Cell], list[Difference]]:
    """The rates of each unit, bin and model, and their differences.

    Args:
        bins: utterances by name, as `by_length` gives them.
        samples: of bootstrap and significance test.
        seed: of both; every bin begins with it, so it depends on no other bin.
    """
    cells: list[Cell] = []
    differences: list[Difference] = []
    with Progress("confidence", len(UNITS) * len(bins), "bins") as progress:
        for unit in UNITS:
            for name, utterances in bins.items():
                found, pairs = score_bin(unit, name, utterances, samples, seed)
                cells += found
                differences += pairs
                progress.update(progress.done + 1)
    return cells, differences


def score_bin(
    unit: str, name: str, utterances: list[Utterance], samples: int, seed: int
) -> tuple[list[Cell], list[Difference]]:
    utterances, models = comparable(utterances)
    if not utterances:
        return [], []
    errors, tokens = by_source(unit, utterances, models)
    drawn = 100 * resampling.bootstrap(errors, tokens, samples, seed)
    found = []
    for row, model in enumerate(models):
        results = [utterance.results[model] for utterance in utterances]
        low, high = bounds(drawn[row], len(tokens))
        found.append(
            Cell(
                *(unit, name, model, len(tokens), len(utterances), int(tokens.sum())),
                seconds=sum(u.seconds for u in utterances) / len(utterances),
                **counted(sum((r.tallies[unit] for r in results), Tally())),
                low=low,
                high=high,
                real_time_factor=usage.real_time_factor([r.used for r in results]),
                peak_bytes=usage.peak([r.used for r in results]),
            )
        )
    pairs = []
    for first, second in combinations(range(len(models)), 2):
        more = errors[first] - errors[second]
        pairs.append(
            Difference(
                *(unit, name, models[first], models[second]),
                float(100 * more.sum() / tokens.sum()),
                *bounds(drawn[first] - drawn[second], len(tokens)),
                resampling.matched_pairs(more, samples, seed),
            )
        )
    return found, pairs


def comparable(utterances: list[Utterance]) -> tuple[list[Utterance], list[str]]:
    """Models that have decoded some of a bin, and what all of these have decoded."""
    names = utterances[0].results
    models = [name for name in names if any(u.results[name] for u in utterances)]
    some = [u for u in utterances if models and all(u.results[m] for m in models)]
    return some, models


def counted(tally: Tally) -> dict[str, float]:
    """The fields of a cell that a tally tells."""
    counts = tally.counts
    return {
        "substitutions": counts.substituted,
        "deletions": counts.deleted,
        "insertions": counts.inserted,
        "rate": 100 * counts.errors / counts.tokens,
        "repeated": tally.repeated,
    }


def bounds(drawn: np.ndarray, sources: int) -> tuple[float | None, float | None]:
    # so few, drawn anew, are too much alike, and no error at all always is, which would
    # look certain
    enough = sources >= resampling.FEWEST and drawn.any()
    return resampling.interval(drawn) if enough else (None, None)


def by_source(
    unit: str, utterances: list[Utterance], models: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Errors (M, S) and tokens (S,) of M models on S sources."""
    sources = dict.fromkeys(utterance.source for utterance in utterances)
    columns = {source: column for column, source in enumerate(sources)}
    errors = np.zeros((len(models), len(columns)), np.int64)
    tokens = np.zeros(len(columns), np.int64)
    for utterance in utterances:
        column = columns[utterance.source]
        for row, model in enumerate(models):
            counts = utterance.results[model].tallies[unit].counts
            errors[row, column] += counts.errors
        tokens[column] += counts.tokens
    return errors, tokens
