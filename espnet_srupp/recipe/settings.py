"""What a training's YAML cannot mean in this recipe, told before any data are made."""

import inspect
import re
from collections.abc import Mapping

from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.recipe import config, features
from espnet_srupp.recipe.arguments import nearest
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options

# where leaving it out is not all that one can do
REMEDIES = {
    "token_type": "give --token_type",
    "normalize": "give --feats_normalize utterance_mvn, which leaves it as it is",
}


def check(options: Options) -> None:
    """Checks the YAML of a training and what overrides it.

    Raises:
        RecipeError: srupp is given a key that it does not have or would get no
            features, the YAML asks for what run.sh replaces, what would be decoded is
            not the model that was trained, or a training would not begin with the model
            that it is to.
    """
    settings = config.read(options.asr_config, options.asr_args)
    if settings.get("encoder") == "srupp":
        check_encoder(options, settings)
        check_features(options, settings)
    check_replaced(options)
    check_saved(settings)
    check_begun(options)
    check_best(options, settings)


def check_encoder(options: Options, settings: Mapping[str, object]) -> None:
    known = inspect.signature(SRUppEncoder).parameters
    for key in settings:
        group, _, name = key.partition(".")
        if group == "encoder_conf" and name and name not in known:
            remedy = nearest(name, known) or "leave it out"
            raise RecipeError(
                f"{options.asr_config} or --asr_args has {name!r} in encoder_conf, "
                f"which srupp does not know: {remedy}"
            )


def check_features(options: Options, settings: Mapping[str, object]) -> None:
    """Sees that ESPnet makes features of the audio, whose samples srupp would take.

    Attention over all samples needs more memory than there is.
    """
    given = {"input_size": None, "frontend": "default"} | settings
    size, frontend = (config.absent(given[name]) for name in ("input_size", "frontend"))
    if size is not None or frontend is None:
        found = "frontend: null" if size is None else f"input_size: {size}"
        raise RecipeError(
            f"{options.asr_config} or --asr_args has {found}, with which ESPnet makes "
            "no features of the audio that run.sh gives it: leave it out"
        )


def check_replaced(options: Options) -> None:
    """Sees that the YAML asks for nothing in whose place run.sh gives ESPnet another.

    What --asr_args have comes last and is taken.
    """
    given = {name: None for name in ("cleaner", "g2p", "non_linguistic_symbols")}
    given["token_type"] = options.token_type
    if options.feats_normalize == "global_mvn":
        given["normalize"] = options.feats_normalize
    for name, value in config.read(options.asr_config).items():
        asked = config.absent(value)
        if name in given and asked != given[name]:
            raise RecipeError(
                f"{options.asr_config} has {name}: {asked or 'null'}, and "
                f"run.sh gives ESPnet {given[name] or 'none'} in its place: "
                + REMEDIES.get(name, "leave it out")
            )


def check_saved(settings: Mapping[str, object]) -> None:
    """Sees that a model is saved whole.

    ESPnet's decoding builds it anew, and what the file lacks stays as it was drawn.
    """
    strategy = settings.get("save_strategy", "all")
    if str(settings.get("use_adapter", False)).lower() == "true" and strategy != "all":
        raise RecipeError(
            f"save_strategy {strategy} leaves parameters out of the models, and ESPnet "
            "would decode with random ones in their place: leave it out, or give all"
        )


def check_begun(options: Options) -> None:
    """Sees that a training begins with the model that run.sh gives it."""
    named = dict(config.arguments(options.asr_args))
    if options.pretrained_model and "init_param" in named:
        raise RecipeError(
            "--asr_args has --init_param, which ESPnet takes in the place of "
            f"{options.pretrained_model}: give --pretrained_model alone, with which "
            "the first of several trainings begins"
        )


def check_best(options: Options, settings: Mapping[str, object]) -> None:
    """Sees that what is decoded was chosen by something.

    Without a decoder the accuracy is NaN, by which ESPnet takes the first epochs, and
    the training of a transducer or of Mask-CTC has none, so that ESPnet keeps the last
    epochs alone. By what best_model_criterion leaves out ESPnet chooses none.
    """
    model = options.inference_asr_model
    if not features.has_accuracy(settings) and re.search(r"\bacc\b", model):
        kind = "its best_model_criterion"
        if features.ctc_weight(settings) == 1:
            kind = "ctc_weight 1"
        if features.transduces(settings):
            kind = "a transducer"
        elif features.masks(settings):
            kind = "model maskctc"
        raise RecipeError(
            f"with {kind} there is no accuracy by which {model} is chosen: set "
            "best_model_criterion: [[valid, loss, min]] in the YAML, and give "
            "--inference_asr_model valid.loss.ave.pth"
        )
