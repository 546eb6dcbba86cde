"""How many utterances have the same transcript alone and in a batch, model by model.

    python3 benchmarks/same_transcript.py DATA MODEL=EXP ... [--batch 4 16 100]

DATA is a data directory (wav.scp), EXP an experiment that run.sh has trained. Each
utterance is decoded alone and in batches of so many, by CTC greedy and, with an ESPnet
that decodes batches (202611), by its joint search.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import machine
import soundfile
import torch
from torch.nn.utils.rnn import pad_sequence

from espnet_srupp.compat import GENERATION
from espnet_srupp.inference import Speech2Text
from espnet_srupp.recipe.table import read_table

LINE = "{model:<12} {search:<6} in batches of {batch:>3}: {same} of {all} the same"


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    paths = read_table(args.data / "wav.scp").values()
    waves = [torch.from_numpy(soundfile.read(p, dtype="float32")[0]) for p in paths]
    report = machine.describe("torch", "espnet") | {"rows": []}
    for model, exp in args.models.items():
        for row in compare(load(Path(exp), args), waves, args.batch):
            report["rows"].append({"model": model} | row)
            print(LINE.format(**report["rows"][-1]), flush=True)
            machine.write(report, args.json)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    add = parser.add_argument
    add("data", metavar="DATA", type=Path)
    machine.add_named(parser, "models", "MODEL=EXP")
    batches = {"nargs": "+", "default": [4, 16, 100], "help": "default: 4 16 100"}
    add("--batch", type=machine.positive, **batches)
    add("--checkpoint", default="valid.acc.ave.pth", help="default: %(default)s")
    add("--beam-size", type=machine.positive, default=10, help="default: 10")
    add("--ctc-weight", type=float, default=0.3, help="default: 0.3")
    add("--threads", type=machine.positive, default=2, help="default: 2")
    add("--json", type=machine.writable, help="file for the figures")
    return parser.parse_args()


def load(exp: Path, args: argparse.Namespace) -> Speech2Text:
    # a batch_size makes this ESPnet take lists
    batched = {"batch_size": max(args.batch)} if GENERATION >= 202611 else {}
    return Speech2Text(
        exp / "config.yaml",
        exp / args.checkpoint,
        beam_size=args.beam_size,
        ctc_weight=args.ctc_weight,
        **batched,
    )


def compare(
    model: Speech2Text, waves: list[torch.Tensor], sizes: list[int]
) -> Iterator[dict]:
    searches: dict[str, Callable] = {"greedy": greedy}
    if GENERATION >= 202611:
        searches["joint"] = joint
    for name, search in searches.items():
        alone = [search(model, [wave])[0] for wave in waves]
        for size in sizes:
            found = itertools.chain.from_iterable(
                search(model, waves[i : i + size]) for i in range(0, len(waves), size)
            )
            same = sum(a == b for a, b in zip(alone, found, strict=True))
            yield {"search": name, "batch": size, "same": same, "all": len(waves)}


@torch.no_grad()
def greedy(model: Speech2Text, waves: list[torch.Tensor]) -> list[list[int]]:
    lengths = torch.tensor([len(wave) for wave in waves])
    padded = pad_sequence(waves, batch_first=True)
    encoded, olens = model.asr_model.encode(padded, lengths)
    best = model.asr_model.ctc.argmax(encoded)
    return [
        [token for token in torch.unique_consecutive(row[:length]).tolist() if token]
        for row, length in zip(best, olens, strict=True)
    ]


def joint(model: Speech2Text, waves: list[torch.Tensor]) -> list[str]:
    return [found[0][0] for found in model(waves)]


if __name__ == "__main__":
    machine.run(main)
