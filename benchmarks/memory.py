"""Whether memory stays flat over many training steps and many utterances.

    python3 benchmarks/memory.py [--steps 2000] [--out REPORT.json]

A small SRU++ encoder with CTC on random features of a different shape in every step, as
in a training with sorted batches, and then single utterances without gradients. The
resident memory is read after every tenth of the steps; what the allocator needs for all
shapes is there after the first half.
"""

import argparse
import os
import sys
from pathlib import Path

import machine
import torch

from espnet_srupp.encoder import SRUppEncoder

FEATURES, TOKENS = 20, 30
PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    encoder = SRUppEncoder(FEATURES, 16, 32, 16, 3, embed_size=8)
    output = torch.nn.Linear(16, TOKENS)
    parameters = [*encoder.parameters(), *output.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-4)
    report = {"command": " ".join(["python3", *sys.argv])}
    report |= machine.describe("torch", "numba", "espnet")
    report["train_mib"] = follow(
        lambda: train(encoder, output, optimizer), args.steps, "training steps"
    )
    encoder.eval()
    report["inference_mib"] = follow(
        lambda: infer(encoder, output), args.steps, "utterances"
    )
    machine.write(report, args.out)


def follow(step, steps: int, what: str) -> list[float]:
    """Resident MiB after each tenth of the steps."""
    sizes = []
    for number in range(1, steps + 1):
        step()
        if number % (steps // 10) == 0:
            sizes.append(round(resident(), 1))
            print(f"{number} {what}: {sizes[-1]} MiB", flush=True)
    half = sizes[len(sizes) // 2 - 1]
    print(f"second half of the {what}: {sizes[-1] - half:+.1f} MiB", flush=True)
    return sizes


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def batch(largest: int):
    """Features (B, T, F) and lengths, both of a random shape."""
    B = int(torch.randint(1, largest + 1, ()))
    T = int(torch.randint(60, 200, ()))
    ilens = torch.randint(40, T + 1, (B,))
    ilens[0] = T
    return torch.randn(B, T, FEATURES), ilens


def train(encoder, output, optimizer) -> None:
    xs_pad, ilens = batch(6)
    xs, olens, _ = encoder(xs_pad, ilens)
    scores = output(xs).log_softmax(-1).transpose(0, 1)
    targets = torch.randint(1, TOKENS, (len(ilens), 4))
    lengths = torch.full((len(ilens),), 4)
    loss = torch.nn.functional.ctc_loss(scores, targets, olens, lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def infer(encoder, output) -> None:
    xs_pad, ilens = batch(1)
    with torch.no_grad():
        output(encoder(xs_pad, ilens)[0]).argmax(-1).tolist()


if __name__ == "__main__":
    main()
