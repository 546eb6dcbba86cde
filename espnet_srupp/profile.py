"""Parameters and floating-point operations of any ESPnet encoder, part by part.

python3 -m espnet_srupp.profile CONFIG.yaml [--frames 1000]
"""

import argparse
import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

import espnet_srupp.register  # noqa: F401
from espnet_srupp.recipe.config import load
from espnet_srupp.recipe.errors import RecipeError


@dataclass(frozen=True)
class Part:
    """A module of the encoder, or all those whose names differ in numbers only.

    Attributes:
        name: attributes from the encoder down, without numbers.
        parameters: number of trained values.
        flops: operations of matrix products and convolutions, 2 per multiply-add.
    """

    name: str
    parameters: int
    flops: int


def build_encoder(config: dict) -> tuple[nn.Module, int]:
    """Builds the encoder of an ASR config of ESPnet, and tells its features per frame.

    Raises:
        ValueError: ESPnet or this package has no such encoder or frontend, or the
            config names no encoder.
        TypeError: `encoder_conf` has an option that the encoder does not take.
    """
    from espnet2.tasks import asr

    def build(kind: str, **size: int) -> nn.Module:
        choices = getattr(asr, f"{kind}_choices")
        cls = choices.get_class(config.get(kind, choices.default))
        # an empty one is None in YAML
        return cls(**size, **(config.get(f"{kind}_conf") or {}))

    if not config.get("encoder"):
        # ESPnet takes an RNN then
        what = "is of a language model and " if "lm" in config else ""
        raise ValueError(f"it {what}has no encoder: give the YAML of a training")
    input_size = config.get("input_size")
    if not input_size and config.get("frontend", "default") is None:
        raise ValueError("it has no frontend: give input_size, its values per frame")
    input_size = input_size or build("frontend").output_size()
    if config.get("preencoder"):
        preencoder = build("preencoder")
        input_size = preencoder.output_size()
    return build("encoder", input_size=input_size), input_size


def profile(encoder: nn.Module, input_size: int, frames: int) -> list[Part]:
    """Runs an encoder, where it is, over `frames` frames of `input_size` and counts.

    Returns:
        The encoder itself, named "", and its modules down to three levels.
    """
    device = next(encoder.parameters()).device
    xs = torch.zeros(1, frames, input_size, device=device)
    if takes_tokens(encoder):
        xs = torch.zeros(1, frames, dtype=torch.int64, device=device)
    flops = count_flops(encoder, xs)
    modules = {f".{name}" if name else "": m for name, m in encoder.named_modules()}
    names = {without_numbers(name): None for name in modules}
    return [
        Part(
            name[1:],
            sum(count_parameters(modules[m]) for m in topmost(name, modules)),
            sum(flops[m] for m in topmost(name, flops)),
        )
        for name in names
        if name.count(".") <= 3
    ]


def count_flops(encoder: nn.Module, xs: torch.Tensor) -> dict[str, int]:
    """Operations of each module on one utterance: (1, T, features) or (1, T) ids."""
    # known to torch on other devices only
    of_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    attention = {of_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)}
    counter = FlopCounterMode(display=False, custom_mapping=attention)
    # conditioning on a CTC needs a vocabulary, which a config does not have
    conditioned = getattr(encoder, "interctc_use_conditioning", False)
    # of each, as part of an encoder may be frozen in another mode than the rest
    modes = {module: module.training for module in encoder.modules()}
    encoder.interctc_use_conditioning = False
    try:
        # with gradients, as without them the layers merge their parts on a CPU; but
        # nothing is kept for a backward pass, which would be gigabytes
        nothing = torch.autograd.graph.saved_tensors_hooks(
            lambda _: None, lambda _: None
        )
        with counter, nothing:
            encoder.eval()(xs, torch.tensor([xs.shape[1]], device=xs.device))
    finally:
        for module, mode in modes.items():
            module.training = mode
        encoder.interctc_use_conditioning = conditioned
    root = type(encoder).__name__
    return {
        name.removeprefix(root): sum(counts.values())
        for name, counts in counter.get_flop_counts().items()
        if name != "Global"
    }


def takes_tokens(encoder: nn.Module) -> bool:
    """Whether it embeds token ids, as by ESPnet's `input_layer: embed`."""
    modules = encoder.named_modules()
    return any(
        n.startswith("embed") and isinstance(m, nn.Embedding) for n, m in modules
    )


def count_parameters(module: nn.Module) -> int:
    """Number of values that training changes."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def without_numbers(name: str) -> str:
    """`.encoders.3.attention` -> `.encoders.attention`."""
    return ".".join(word for word in name.split(".") if not word.isdigit())


def topmost(name: str, modules: Iterable[str]) -> list[str]:
    """Of `modules`, those within the part `name` that lie in no other one of them."""
    inside = {m for m in modules if f"{without_numbers(m)}.".startswith(f"{name}.")}
    return [m for m in inside if inside.isdisjoint(parents(m))]


def parents(name: str) -> Iterable[str]:
    """`.encoders.3` -> ``, `.encoders`."""
    return accumulate(name.split(".")[:-1], "{}.{}".format)


def table(parts: list[Part]) -> str:
    """The parts that make up a thousandth of something, the encoder itself last."""
    total, *parts = parts
    rows = [f"{'':30}{'parameters (M)':>16}{'GFLOPs':>10}"]
    for part in [*parts, replace(total, name="total")]:
        if (
            1000 * part.parameters >= total.parameters
            or 1000 * part.flops >= total.flops
        ):
            name = "  " * part.name.count(".") + part.name.rpartition(".")[2]
            figures = f"{part.parameters / 1e6:16.2f}{part.flops / 1e9:10.2f}"
            rows.append(f"{name:30}{figures}")
    return "\n".join(rows)


def main() -> None:
    """Prints the table of the config on the command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m espnet_srupp.profile", description=__doc__.splitlines()[0]
    )
    parser.add_argument("config", type=Path, help="an ASR config of ESPnet")
    parser.add_argument(
        "--frames", type=int, default=1000, help="of input (default: 1000)"
    )
    args = parser.parse_args()
    if args.frames < 1:
        parser.error(f"--frames {args.frames} is not a number above 0: correct it")
    if not args.config.is_file():
        parser.error(f"there is no file {args.config}: check its path")
    try:
        config = load(args.config)
        if isinstance(config.get("model"), dict):
            # ESPnet3's YAML of a training
            config = config["model"]
        encoder, input_size = build_encoder(config)
        parts = profile(encoder, input_size, args.frames)
    except RecipeError as error:
        parser.error(str(error))
    except Exception as error:  # there is no end to what ESPnet's classes raise
        # ESPnet's assertions say nothing
        said = " ".join(str(error).split()) or type(error).__name__
        parser.error(f"{args.config}: {said}")
    print(f"{type(encoder).__name__}, {args.frames} frames of {input_size} features\n")
    print(table(parts))
    print(
        "\nA part that all layers have is summed over them. GFLOPs are those of matrix"
        "\nproducts and convolutions, 2 per multiply-add; elementwise work, such as the"
        "\nrecurrence, is not counted."
    )


if __name__ == "__main__":
    # ends like any program when nobody reads on, as behind `| head`
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
