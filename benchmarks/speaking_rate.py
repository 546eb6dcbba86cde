"""Word error rates by how fast people speak, for results of one data directory.

    python3 benchmarks/speaking_rate.py DATA NAME=TEXT ... [--groups 4]

TEXT is a file of results, "id text" a line, as decoding and `longform transcribe` write
it. Utterances are put into groups of one size by the characters of their transcripts a
second, spaces and one frame more for each repeated character included: that many frames
a second CTC with letters needs at least.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import machine
import numpy as np
import soundfile

from espnet_srupp.recipe import datadir, scoring
from espnet_srupp.recipe.datadir import DataDir


def main() -> None:
    args = parse()
    data = datadir.read(args.data)
    rates = {key: rate(data, key) for key in data.text}
    groups = split(rates, args.groups)
    print("| characters a second | utterances | " + " | ".join(args.results) + " |")
    print("|---" * (2 + len(args.results)) + "|")
    texts = [
        scoring.read_texts(args.data / "text", Path(path))
        for path in args.results.values()
    ]
    for group in groups:
        span = f"{rates[group[0]]:.1f} to {rates[group[-1]]:.1f}"
        cells = [f"{error_rate(pairs, group):.1f}" for pairs in texts]
        print("| " + " | ".join([span, str(len(group)), *cells]) + " |")


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    parser.add_argument("data", metavar="DATA", type=Path)
    machine.add_named(parser, "results", "NAME=TEXT")
    parser.add_argument(
        "--groups", type=machine.positive, default=4, help="at most (default: 4)"
    )
    return parser.parse_args()


def rate(data: DataDir, key: str) -> float:
    """Frames a second that CTC needs at least for the characters of an utterance."""
    text = data.text[key]
    frames = len(text) + sum(a == b for a, b in pairwise(text))
    if data.segments:
        _, start, end = data.segments[key]
        return frames / (end - start)
    return frames / soundfile.info(data.wav[key]).duration


def split(rates: dict[str, float], groups: int) -> list[list[str]]:
    """Utterances from slow to fast in groups whose sizes differ by one at most."""
    order = sorted(rates, key=rates.__getitem__)
    parts = np.array_split(order, min(groups, len(order)))
    return [list(map(str, part)) for part in parts]


def error_rate(pairs: dict[str, tuple[str, str]], group: list[str]) -> float:
    """Word error rate in percent."""
    words = {key: tuple(map(str.split, pairs[key])) for key in group}
    out = scoring.align(words)
    errors = out.substitutions + out.deletions + out.insertions
    return 100 * errors / sum(len(reference) for reference, _ in words.values())


if __name__ == "__main__":
    machine.run(main)
