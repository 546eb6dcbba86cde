"""Whether memory stays flat over many training steps and many transcribed utterances.

    python3 benchmarks/memory.py EXP DATA [--steps 2000] [--json REPORT.json]

EXP is an experiment that run.sh has trained, DATA a data directory (wav.scp, text). The
model transcribes single utterances by ESPnet's joint search, and is trained on random
batches of one to four, whose shapes are hardly ever the same, with freed memory kept as
by espnet_srupp.run. The resident memory is read after every tenth of the steps, as it
is and after malloc_trim: what leaks is in use and stays, what the allocator keeps
between blocks of many sizes goes. What is kept for each shape (oneDNN) is there after
the first half.
"""

import argparse
import ctypes
import os
import random
from collections.abc import Callable
from pathlib import Path

import machine
import soundfile
import torch
from torch.nn.utils.rnn import pad_sequence

from espnet_srupp.heap import keep_freed
from espnet_srupp.inference import Speech2Text
from espnet_srupp.recipe.table import read_table

PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    random.seed(0)
    exp, checkpoint = str(args.exp / "config.yaml"), str(args.exp / args.checkpoint)
    model = Speech2Text(exp, checkpoint, beam_size=args.beam_size, ctc_weight=0.3)
    utterances = read(args.data, model)
    report = machine.describe("torch", "numba", "espnet")
    report["transcribe_mib"] = follow(
        lambda: model(random.choice(utterances)[0]), args.steps, "utterances"
    )
    machine.write(report, args.json)
    keep_freed()
    train = trainer(model.asr_model.train(), utterances)
    report["train_mib"] = follow(train, args.steps, "training steps")
    machine.write(report, args.json)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    add = parser.add_argument
    add("exp", metavar="EXP", type=Path)
    add("data", metavar="DATA", type=Path)
    add("--checkpoint", default="valid.acc.ave.pth", help="default: %(default)s")
    add("--steps", type=int, default=2000, help="of each kind (default: 2000)")
    add("--beam-size", type=machine.positive, default=3, help="default: 3")
    add("--threads", type=machine.positive, default=1, help="default: 1")
    add("--json", type=machine.writable, help="file for the figures")
    args = parser.parse_args()
    if args.steps < 20:
        parser.error(f"--steps {args.steps}: give 20 or more, to compare two halves")
    return args


def read(data: Path, model: Speech2Text) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Samples and token numbers of all utterances."""
    texts, pairs = read_table(data / "text"), []
    for name, path in read_table(data / "wav.scp").items():
        samples = soundfile.read(path, dtype="float32")[0]
        tokens = model.converter.tokens2ids(model.tokenizer.text2tokens(texts[name]))
        pairs.append((torch.from_numpy(samples), torch.tensor(tokens)))
    return pairs


def trainer(model: torch.nn.Module, utterances: list) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        chosen = random.choices(utterances, k=random.randint(1, 4))
        speech, text = (list(column) for column in zip(*chosen, strict=True))
        loss, _, _ = model(
            speech=pad_sequence(speech, batch_first=True),
            speech_lengths=torch.tensor([len(row) for row in speech]),
            text=pad_sequence(text, batch_first=True, padding_value=-1),
            text_lengths=torch.tensor([len(row) for row in text]),
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def follow(step: Callable[[], object], steps: int, what: str) -> list[dict]:
    """Resident MiB after each tenth of the steps, and what of it is in use."""
    rows = []
    for number in range(1, steps + 1):
        step()
        if number % (steps // 10) == 0:
            rows.append({"steps": number, "resident": round(resident(), 1)})
            ctypes.CDLL(None).malloc_trim(0)
            rows[-1]["in_use"] = round(resident(), 1)
            line = "{steps} {what}: {resident} MiB, {in_use} in use"
            print(line.format(what=what, **rows[-1]), flush=True)
    grown = rows[-1]["in_use"] - rows[len(rows) // 2 - 1]["in_use"]
    print(f"in use by the second half of the {what}: {grown:+.1f} MiB", flush=True)
    return rows


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


if __name__ == "__main__":
    machine.run(main)
