"""A small reference with the results of two models, and its scores."""

from espnet_srupp.longform import table
from espnet_srupp.longform.__main__ import main
from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.table import write_table

TEXT = {"u1": "A B C D", "u2": "A B C D E", "u3": "A A", "u4": "X Y Z"}
SECONDS = {"u1": 5, "u2": 10, "u3": 15.5, "u4": 45}
# a substitution and a deletion, an insertion, three deletions
POOR = {"u1": "a b c d", "u2": "A X C D", "u3": "A A A", "u4": ""}
WORDS = ["--bins", "0,10,20,40", "--fs", "1000", "--samples", "200"]


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key} {value}\n" for key, value in table.items()))
    return path


def write_sets(folder):
    wav = {u: f"{u}.flac" for u in TEXT}
    datadir.write(DataDir(wav, TEXT, dict.fromkeys(TEXT, "s")), folder / "ref")
    samples = {u: round(1000 * s) for u, s in SECONDS.items()}
    write_table(samples, folder / "ref" / "utt2num_samples")
    write(folder / "good" / "text", TEXT)
    write(folder / "poor" / "text", POOR)
    return folder


def score(folder, *words):
    models = [f"good={folder / 'good'}", f"poor={folder / 'poor/text'}"]
    out = ["--out", str(folder / "out")]
    return main(["score", str(folder / "ref"), *models, *out, *WORDS, *words])


def cells(folder, unit="wer"):
    scores = table.read(folder / "out" / "scores.json")
    return {(c.bin, c.model): c for c in scores.cells if c.unit == unit}
