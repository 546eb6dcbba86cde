"""Finds, checks and builds a trained model of ESPnet, and loads its parameters."""

import argparse
import tarfile
import tempfile
import textwrap
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from espnet2.layers.create_adapter import create_adapter
from torch import nn

from espnet_srupp.longform.model import Recogniser
from espnet_srupp.longform.words import Spelling
from espnet_srupp.recipe import config as yaml_file
from espnet_srupp.recipe.archive import unpack
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.task import ASRTask

CHECKPOINT = "valid.acc.ave.pth"
# what a config may say, that all is done in tiles or by the encoder
KNOWN = {
    "model": ("espnet",),
    "input_size": (None,),
    "preprocessor": ("default",),
    "speech_volume_normalize": (None,),
    "frontend": ("default",),
    "normalize": ("global_mvn", "utterance_mvn", None),
    "preencoder": (None,),
    "postencoder": (None,),
    "token_type": ("bpe", "char", "word"),
}


@dataclass(frozen=True)
class Files:
    """Where a model lies; the folder is that of config.yaml."""

    config: Path
    checkpoint: Path
    archived: bool


@contextmanager
def files(path: Path, checkpoint: str | None) -> Iterator[Files]:
    """Finds a model's files; those of an archive are there as long as the context.

    Args:
        path: an experiment's folder, or what `espnet2.bin.pack` made of one.
        checkpoint: a file in the folder; None is CHECKPOINT, or the one packed.

    Raises:
        RecipeError: a file is missing, or the archive is not a packed model.
    """
    if path.is_dir():
        chosen = path / (checkpoint or CHECKPOINT)
        yield present(Files(path / "config.yaml", chosen, False))
        return
    if not path.exists():
        raise RecipeError(f"{path} is missing: give an experiment's folder or a zip")
    if not (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
        raise RecipeError(
            f"{path} is no folder of an experiment and no packed model, or a damaged "
            "one: give another"
        )
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, Path(folder))
        try:
            meta = yaml_file.load(Path(folder, "meta.yaml"))
            config = Path(folder, meta["yaml_files"]["asr_train_config"])
            packed = Path(folder, meta["files"]["asr_model_file"])
        except (FileNotFoundError, KeyError, TypeError) as error:
            raise RecipeError(
                f"{path} is no model that ESPnet packed: give what stage 14 makes, or "
                "the folder of an experiment, and --checkpoint for a file in it"
            ) from error
        chosen = config.parent / checkpoint if checkpoint else packed
        if checkpoint and not chosen.is_file():
            raise RecipeError(f"{path} holds no {checkpoint}: leave out --checkpoint")
        yield present(Files(config, chosen, True))


def present(found: Files) -> Files:
    for path in (found.config, found.checkpoint):
        if not path.is_file():
            raise RecipeError(
                f"{path.absolute()} is missing: give the folder of an experiment that "
                "is trained, or another --checkpoint"
            )
    return found


def load(found: Files, device: str, dtype: torch.dtype = torch.float32) -> Recogniser:
    """Builds a model, whose encoder computes in `dtype`, and loads its parameters.

    Raises:
        RecipeError: it has parts that need the whole recording at once or no CTC, or
            files do not fit each other.
    """
    config = yaml_file.load(found.config)
    check(config, found.config)
    model = build(config, found)
    if model.ctc is None:
        raise RecipeError(f"{found.config}: the model has no CTC: choose another one")
    rate = model.frontend.logmel.mel_options["sr"]
    if rate <= 0 or model.frontend.stft.hop_length <= 0:
        raise RecipeError(
            f"{found.config}: fs and hop_length are not both above 0: correct it"
        )
    fill(model, found)
    model.to(device).eval()
    marks = (model.sos, model.eos)
    token_type = config.get("token_type", KNOWN["token_type"][0])
    spelling = Spelling(token_type, model.token_list, marks)
    input_layer = (config.get("encoder_conf") or {}).get("input_layer", "conv2d")
    return Recogniser(model, rate, input_layer, spelling, dtype)


def fill(model: nn.Module, found: Files, option: str = "--checkpoint") -> None:
    """Loads the checkpoint's parameters into the model; `option` may name another."""
    try:
        # a checkpoint of strangers may hold code: only numbers are read
        state = torch.load(found.checkpoint, map_location="cpu", weights_only=True)
        # Lightning's files, which ESPnet3 writes, hold more than them
        model.load_state_dict(state.get("state_dict", state))
    except OSError:
        raise
    except Exception as error:  # there is no end to what a damaged pickle raises
        reason = textwrap.shorten(str(error) or type(error).__name__, 200)
        raise RecipeError(
            f"{found.checkpoint} is not a checkpoint of {found.config} ({reason}): "
            f"give the right one with {option}"
        ) from error
    for name, numbers in model.state_dict().items():
        if not numbers.isfinite().all():
            raise RecipeError(
                f"{found.checkpoint} is damaged, or its training went wrong: {name} "
                f"holds numbers that are not finite; give another one with {option}"
            )


def check(config: dict, path: Path) -> None:
    for key, known in KNOWN.items():
        value = config.get(key, known[0])
        if value not in known:
            raise RecipeError(
                f"{path}: the model has {key}: {value}, which cannot be run on hours "
                f"of audio: only {', '.join(map(str, known))} can"
            )
    conf = config.get("frontend_conf")
    if isinstance(conf, dict) and not conf.get("apply_stft", True):
        raise RecipeError(f"{path}: the frontend has no STFT: choose another model")


def build(config: dict, found: Files) -> nn.Module:
    given: dict[str, Any] = config | {"init": None}
    if config.get("normalize") == "global_mvn":
        conf = config.get("normalize_conf")
        name = conf.get("stats_file") if isinstance(conf, dict) else None
        if not isinstance(name, str):
            raise RecipeError(
                f"{found.config} names no file as normalize_conf's stats_file: give it "
                "there"
            )
        given["normalize_conf"] = conf | {"stats_file": located(name, found)}
    if isinstance(config.get("token_list"), str):
        given["token_list"] = located(config["token_list"], found)
    with constructing(found):
        model = ASRTask.build_model(argparse.Namespace(**given))
        if config.get("use_adapter"):
            create_adapter(model, config["adapter"], config["adapter_conf"])
    return model


@contextmanager
def constructing(found: Files) -> Iterator[None]:
    """Raises RecipeError where ESPnet cannot build what a configuration describes."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # as there is to what modules raise for their options
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RecipeError(
            f"{found.config} is not of a model that this ESPnet can build ({reason}): "
            "use the version that trained it"
        ) from error


def located(path: str, found: Files) -> str:
    """Finds a file that a config names as seen from its recipe's folder."""
    near = [folder / path for folder in found.config.resolve().parents]
    # an archive has its own, whatever lies where the command is given
    candidates = near if found.archived else [Path(path), *near]
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    raise RecipeError(
        f"{path}, which {found.config} names, is missing: give the command in the "
        "recipe's folder, or the packed model"
    )
