"""How exact the gradients of trained models are in bfloat16, part by part.

    cd recipes/an4/asr1
    python3 ../../../benchmarks/gradients.py exp/asr_a exp/asr_b [--json FILE]

Of each experiment's averaged model: the norm of its gradients in float32, without
dropout and SpecAugment, as the root of the mean square over batches of its training
set; and the error of those in bfloat16, times that norm. Of SRU++ also the standard
deviation of each layer's attention scores, which are not to be large.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

import machine
import torch
from espnet2.train.dataset import ESPnetDataset
from torch import Tensor, nn
from tqdm import tqdm

from espnet_srupp.attention import SRUppAttention
from espnet_srupp.recipe import probe
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.task import ASRTask

BATCH = 20
RATES = ("dropout_rate", "attention_dropout_rate", "layer_drop_rate")


def main() -> None:
    args = parse()
    report = machine.describe("espnet", "torch")
    report |= {"batches": args.batches, "models": {}}
    for exp in args.exp:
        report["models"][exp.name] = found = measure(exp, args.model, args.batches)
        print(f"{exp}: gradients of {args.batches} batches of {BATCH} utterances")
        for name, (norm, error) in found["parts"].items():
            print(f"  {name:24} norm {norm:8.3f}   error of bfloat16 {error:6.3f}")
        if found["scores"]:
            print("  scores of each layer:", *(f"{s:.1f}" for s in found["scores"]))
        machine.write(report, args.json)


def parse() -> argparse.Namespace:
    parser = machine.parser(__doc__)
    parser.add_argument("exp", nargs="+", type=Path, help="experiment's folder")
    parser.add_argument("--model", default="valid.acc.ave.pth", help="file in it")
    parser.add_argument(
        "--batches", type=machine.positive, default=8, help="number of batches (8)"
    )
    parser.add_argument(
        "--json", type=machine.writable, help="file to write the figures to"
    )
    return parser.parse_args()


def measure(exp: Path, file: str, batches: int) -> dict:
    """{"parts": {name: (norm, relative error)}, "scores": [deviation, ...]}"""
    model, config = ASRTask.build_model_from_file(
        exp / "config.yaml", exp / file, "cpu"
    )
    still(model)
    scores = [watch(m) for m in model.encoder.modules() if attends(m)]
    norms: dict[str, float] = {}
    errors: dict[str, float] = {}
    for batch in tqdm(draw(config, batches), total=batches, desc=exp.name, leave=False):
        exact = gradients(model, batch, bfloat16=False)
        found = gradients(model, batch, bfloat16=True)
        for name, gradient in exact.items():
            error = (found[name] - gradient).square().sum().item()
            errors[part(name)] = errors.get(part(name), 0) + error
            squares = gradient.square().sum().item()
            norms[part(name)] = norms.get(part(name), 0) + squares
    parts = {
        name: ((total / batches) ** 0.5, (errors[name] / total) ** 0.5)
        for name, total in norms.items()
    }
    return {"parts": parts, "scores": [found[0] for found in scores]}


def still(model: nn.Module) -> None:
    """Leaves out what is drawn at random in training."""
    model.train()
    model.specaug = None
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for rate in RATES:
            if hasattr(module, rate):
                setattr(module, rate, 0.0)


def attends(module: nn.Module) -> bool:
    return isinstance(module, SRUppAttention) and module.attention


def watch(module: SRUppAttention) -> list[float]:
    """A list that will hold the scores' deviation in the first utterance."""
    found: list[float] = []

    @torch.no_grad()
    def hook(module: SRUppAttention, inputs: tuple) -> None:
        x, lengths = inputs
        # None where no utterance is shorter than the others
        real = None if lengths is None else lengths[0]
        if not found:
            found.append(probe.scores(module, x[:real, :1]).std().item())

    module.register_forward_pre_hook(hook)
    return found


def draw(config: argparse.Namespace, batches: int) -> Iterator[dict[str, Tensor]]:
    """Batches of utterances of the training set, the same in every run."""
    preprocess = ASRTask.build_preprocess_fn(config, train=False)
    data = ESPnetDataset(config.train_data_path_and_name_and_type, preprocess)
    collate = ASRTask.build_collate_fn(config, train=False)
    names = sorted(data)
    if len(names) < batches * BATCH:
        raise RecipeError(
            f"{config.output_dir}: its training set has {len(names)} utterances, fewer "
            f"than {batches} batches of {BATCH}: lower --batches"
        )
    names = random.Random(0).sample(names, batches * BATCH)
    for start in range(0, len(names), BATCH):
        yield collate([data[name] for name in names[start : start + BATCH]])[1]


def gradients(model: nn.Module, batch: dict, bfloat16: bool) -> dict[str, Tensor]:
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        loss, *_ = model(**batch)
    loss.backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def part(name: str) -> str:
    """encoder.encoders.0.attention.query.weight -> encoder.encoders.0"""
    words = name.split(".")
    return ".".join(words[: 3 if words[2].isdigit() else 2])


if __name__ == "__main__":
    machine.run(main)
