"""Tables of encoders in the READMEs have the figures of benchmarks/results."""

import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# of a table's cells what their file is named by, and the case in it
SINGLE = [("", f"{seconds} s") for seconds in (10, 60, 150)]
BATCH, TRAINING = ("batch_", "8 x 10-15 s"), ("training_", "8 x 10-15 s")
CASES = [*SINGLE, BATCH, TRAINING]
# by label; *separable* had the name that *light* has now
STEMS = {
    "Conformer": "conformer",
    "SRU++": "srupp",
    "pooled": "aishell_srupp_pooled",
    "light": "aishell_srupp_light",
    "separable": "aishell_srupp_light",
    "fast": "srupp_fast",
}
TABLES = [
    ({"float32": "xeon_", "bfloat16": "amx_"}, CASES),
    ({"float32": "", "bfloat16": "bfloat16_"}, CASES),
    ({"float32": "epyc_"}, [("short_", "10 s"), *CASES[1:]]),
]


def tables(name, head):
    """The rows of a README's tables whose head begins so, as lists of cells."""
    text = (ROOT / name).read_text()
    found = re.findall(rf"^\| \| {head}.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    return [
        [row.strip("| ").split(" | ") for row in each.splitlines()] for each in found
    ]


def measured(files, case, dtype, label):
    part, name = case
    path = RESULTS / f"encoder_{files[dtype]}{part}cpu.json"
    rows = json.loads(path.read_text())["rows"]
    (stem,) = {stem for words, stem in STEMS.items() if words in label}
    (row,) = (
        row for row in rows if row["case"] == name and row["name"].endswith(f"/{stem}")
    )
    return row


def labelled(rows):
    """Rows with the type of numbers, which the first one of a type tells."""
    dtype = "float32"
    for label, *cells in rows:
        dtype = "bfloat16" if label.startswith("bfloat16") else dtype
        yield dtype, label, cells


@pytest.mark.parametrize("number", range(len(TABLES)))
def test_speed_memory_and_share_of_the_peak(number):
    files, cases = TABLES[number]
    rows = tables("benchmarks/README.md", "10 s .*150 s")[number]
    for dtype, label, cells in labelled(rows):
        for case, cell in zip(cases, cells, strict=True):
            row = measured(files, case, dtype, label)
            ratio = "1" if "Conformer" in label else f"{row['ratio']:.1f}"
            assert cell == f"{ratio}, {row['mib']:.0f} MiB, {100 * row['peak']:.0f} %"


def test_speed_and_memory_of_training():
    files, cases = TABLES[0]
    (rows,) = tables("README.md", "10 s .*150 s")
    for dtype, label, (*cells, share) in labelled(rows):
        found = [measured(files, case, dtype, label) for case in cases]
        assert cells == [f"{row['ratio']:.1f}" for row in found]
        base = measured(files, TRAINING, dtype, "Conformer")
        assert share == f"{found[-1]['mib'] / base['mib']:.2f}"
