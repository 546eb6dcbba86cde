"""How far word times of `longform transcribe` are from the sound of joined utterances.

    python3 benchmarks/word_times.py DATA JOINED NAME=RESULTS ... --json times.json

DATA has utterances with silence at their ends, JOINED is what `longform join` made of
them, best with `--gap 0.5`, and RESULTS what `transcribe` made of that. The sound of an
utterance is where 0.03 s in a row are louder than its noise by 10 dB and than its
loudest parts less 35 dB. Compared with it are the start of the utterance's first word
and the end of its last one, each where the word is right. A word is the utterance's in
which its middle lies, so that one still farther off is not counted.
"""

import argparse
import csv
import json
from pathlib import Path

import machine
import numpy as np
import soundfile

from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.errors import RecipeError

FRAME = 0.01  # seconds
IN_A_ROW = 3  # frames
ABOVE_NOISE, BELOW_SPEECH = 10, 35  # dB
SHARES = 5, 50, 95  # %


def edges(samples: np.ndarray, rate: int) -> tuple[float, float] | None:
    """Seconds at which the sound of an utterance (N,) begins and ends, if it does."""
    hop = round(FRAME * rate)
    frames = samples[: len(samples) // hop * hop].reshape(-1, hop)
    level = 10 * np.log10((frames**2).mean(1) + 1e-12)
    noise, speech = np.percentile(level, (10, 95))
    loud = level > max(noise + ABOVE_NOISE, speech - BELOW_SPEECH)
    runs = np.lib.stride_tricks.sliding_window_view(loud, IN_A_ROW).all(1)
    found = np.flatnonzero(runs)
    if not found.size:
        return None
    # a frame is not a whole number of samples at each rate
    return found[0] * hop / rate, (found[-1] + IN_A_ROW) * hop / rate


def errors(
    texts: dict[str, str], joined: Path, results: Path
) -> tuple[list[float], list[float]]:
    """Seconds by which first words start and last words end after the sound does."""
    starts, ends = [], []
    for row in csv.DictReader((joined / "provenance.csv").open()):
        name, start = row["recording"], float(row["start"])
        begin, count = int(row["start_sample"]), int(row["samples"])
        path = joined / "audio" / f"{name}.flac"
        samples, rate = soundfile.read(path, count, begin)
        sound = edges(samples, rate)
        if sound is None:
            continue
        on, off = sound
        words = [
            word
            for word in json.loads((results / f"{name}.json").read_text())["words"]
            if start <= (word["start"] + word["end"]) / 2 < start + count / rate
        ]
        said = texts[row["utterance"]].split()
        if words and words[0]["text"] == said[0]:
            starts.append(words[0]["start"] - start - on)
        if words and words[-1]["text"] == said[-1]:
            ends.append(words[-1]["end"] - start - off)
    return starts, ends


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("joined", metavar="JOINED", type=Path)
    machine.add_named(parser, "results", "NAME=RESULTS")
    parser.add_argument("--json", type=machine.writable, help="write figures here")
    return parser.parse_args()


def main() -> None:
    given = parse()
    texts = datadir.read(given.data).text
    report = machine.describe("numpy") | {"models": {}}
    for name, results in given.results.items():
        found = errors(texts, given.joined, Path(results))
        report["models"][name] = of_model = {}
        for what, seconds in zip(
            ("start of the first word", "end of the last word"), found, strict=True
        ):
            if not seconds:
                raise RecipeError(f"{name}: no {what} with a sound is right")
            low, middle, high = np.percentile(seconds, SHARES).round(3)
            of_model[what] = {"words": len(seconds), "seconds": [low, middle, high]}
            print(
                f"{name}: {what}, {len(seconds)} words: median {middle:+.2f} s, "
                f"5 % to 95 %: {low:+.2f} to {high:+.2f}"
            )
        machine.write(report, given.json)


if __name__ == "__main__":
    machine.run(main)
