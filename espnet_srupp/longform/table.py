"""Scores as a table: the cells, and their files scores.json, scores.csv, scores.md."""

import csv
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO

from espnet_srupp.longform.resampling import FEWEST
from espnet_srupp.longform.usage import DAMAGES
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.files import atomic_file

NOT_LOGGED = "not logged"
ALL = "all"  # the bin of all utterances


@dataclass(frozen=True)
class Cell:
    """A model on the utterances of one bin.

    Attributes:
        unit: "wer" or "cer".
        bin: "10-20" is 10 s or more and less than 20 s, "40+" is 40 s or more; of
            several references, which one.
        model: its name.
        sources: what intervals and p are drawn from, see `score.independent`.
        utterances, tokens: of the reference.
        seconds: mean length of the utterances.
        substitutions, deletions, insertions: how many.
        rate: errors in percent of the tokens.
        low, high: 95 % interval of the rate; None of few sources or without an error.
        repeated: tokens of the hypotheses, see `counting.repeated`.
        real_time_factor, peak_bytes: None where not logged.
    """

    unit: str
    bin: str
    model: str
    sources: int
    utterances: int
    tokens: int
    seconds: float
    substitutions: int
    deletions: int
    insertions: int
    rate: float
    low: float | None
    high: float | None
    repeated: int
    real_time_factor: float | None
    peak_bytes: int | None


@dataclass(frozen=True)
class Difference:
    """Two models on the utterances of one bin.

    Attributes:
        unit, bin: as of a cell.
        first, second: names of the models.
        difference: rate of the first less that of the second, in percent.
        low, high: 95 % interval of it; None as of a cell.
        p: of `resampling.matched_pairs`.
    """

    unit: str
    bin: str
    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p: float


@dataclass(frozen=True)
class Scores:
    """What `score` found.

    Attributes:
        settings: what it was asked for.
        left_out: sentences on what could not be scored.
        cells, differences: by unit, then by bin, then by model.
    """

    settings: dict
    left_out: list[str]
    cells: list[Cell]
    differences: list[Difference]


def write(scores: Scores, directory: Path) -> None:
    """Writes scores.json, scores.csv, differences.csv and scores.md."""
    with atomic_file(directory / "scores.json") as file:
        json.dump(asdict(scores), file, indent=1, ensure_ascii=False)
        file.write("\n")
    with atomic_file(directory / "scores.csv") as file:
        write_csv(Cell, scores.cells, file)
    with atomic_file(directory / "differences.csv") as file:
        write_csv(Difference, scores.differences, file)
    with atomic_file(directory / "scores.md") as file:
        file.write(markdown(scores))


def write_csv(kind: type, rows: list, file: IO) -> None:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(item.name for item in fields(kind))
    # what is None is an empty field
    table.writerows(asdict(row).values() for row in rows)


def read(path: Path) -> Scores:
    """Reads scores.json.

    Raises:
        RecipeError: it is missing, or not what `score` writes.
    """
    if not path.is_file():
        raise RecipeError(f"{path} is missing: make it with longform score --out DIR")
    try:
        given = json.loads(path.read_text("utf-8"))
        given["cells"] = [Cell(**cell) for cell in given["cells"]]
        given["differences"] = [Difference(**item) for item in given["differences"]]
        return Scores(**given)
    except DAMAGES as error:
        raise RecipeError(
            f"{path} is not what longform score writes to scores.json: make it again"
        ) from error


def markdown(scores: Scores) -> str:
    """The table to read."""
    settings = scores.settings
    parts = [
        "# Error rates by length\n",
        f"Reference: {settings['reference']}. Rates are in percent of its tokens, with "
        f"95 % intervals by {settings['samples']} bootstrap samples of speakers, or of "
        f"recordings where there is but one speaker (seed {settings['seed']}). Of few "
        "of these they are too narrow: in simulations they held the true rate in 91 % "
        f"of cases with 10 and in 92 % with 30; with fewer than {FEWEST} there are "
        'none. "repeated" is the share of the results that says again, at once, what '
        "stands right before it; p is that of a two-sided matched-pairs test by "
        "speakers or recordings, not corrected for the number of tests; with fewer "
        f"than {FEWEST} it is above 0.06, however much models differ.\n",
    ]
    parts += [f"**Left out:** {sentence}\n" for sentence in scores.left_out]
    for unit in dict.fromkeys(cell.unit for cell in scores.cells):
        parts += [f"## {unit.upper()}\n", cell_table(scores.cells, unit)]
        if any(item.unit == unit for item in scores.differences):
            parts += [f"### {unit.upper()}, models compared\n"]
            parts += [difference_table(scores.differences, unit)]
    return "\n".join(parts)


def cell_table(cells: list[Cell], unit: str) -> str:
    head = [
        *("bin", "mean seconds", "speakers or recordings", "utterances"),
        *("words" if unit == "wer" else "characters", "model", unit.upper()),
        *("95 % interval", "Sub", "Del", "Ins", "repeated"),
        *("real-time factor", "peak memory"),
    ]
    return rows_of(head, [cell_row(cell) for cell in cells if cell.unit == unit])


def cell_row(cell: Cell) -> list[str]:
    kinds = (cell.substitutions, cell.deletions, cell.insertions)
    factor, peak = cell.real_time_factor, cell.peak_bytes
    said = cell.tokens - cell.deletions + cell.insertions
    return [
        cell.bin,
        f"{cell.seconds:.1f}",
        *(str(n) for n in (cell.sources, cell.utterances, cell.tokens)),
        cell.model,
        f"{cell.rate:.2f}",
        span(cell.low, cell.high),
        *(f"{100 * n / cell.tokens:.2f}" for n in kinds),
        f"{100 * cell.repeated / max(1, said):.2f}",
        NOT_LOGGED if factor is None else f"{factor:.3f}",
        NOT_LOGGED if peak is None else f"{peak / 1e9:.2f} GB",
    ]


def difference_table(differences: list[Difference], unit: str) -> str:
    head = ["bin", "models", "difference", "95 % interval", "p"]
    return rows_of(
        head,
        [
            [
                item.bin,
                f"{item.first} - {item.second}",
                f"{item.difference:+.2f}",
                span(item.low, item.high, "+"),
                f"{item.p:.4f}",
            ]
            for item in differences
            if item.unit == unit
        ],
    )


def span(low: float | None, high: float | None, sign: str = "") -> str:
    if low is None:
        return "not known"
    return f"{low:{sign}.2f} to {high:{sign}.2f}"


def rows_of(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
