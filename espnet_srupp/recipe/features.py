"""What features and model a configuration has, as far as stages depend on it."""

import hashlib
import re
from collections.abc import Mapping

from espnet_srupp.recipe import config

# what changes the features; all else in a configuration does not
FEATURES = ("frontend", "preprocessor", "input_size", "model_conf.extract_feats")
FEATURES += ("speech_volume_normalize",)
# what many configurations share, so that asr.sh's name of the folder is for them
COMMON = {
    "frontend_conf.n_fft": 512,
    "frontend_conf.win_length": 400,
    "frontend_conf.hop_length": 160,
}
# ESPnet's encoders with a subsampling of their own; the first is its default
OWN_SUBSAMPLING = ("rnn", "vgg_rnn", "wav2vec2", "hubert", "hubert_pretrain")
OWN_SUBSAMPLING += ("torchaudiohubert", "whisper", "avhubert", "beats")
UNKNOWN = "unknown"


def settings(given: Mapping[str, object]) -> dict[str, object]:
    """Those of a flat configuration: the features, and what is too short for CTC."""
    kept = {k: v for k, v in given.items() if k.startswith(FEATURES)}
    # the frames that CTC has, unless they are as many as in most configurations
    if (layer := input_layer(given)) != "conv2d":
        kept["encoder_conf.input_layer"] = layer
    return kept if has_ctc(given) else kept | {"model_conf.ctc_weight": 0}


def tag(given: Mapping[str, object]) -> str:
    """What sets statistics of other settings apart, where asr.sh replaces them.

    Those without settings and those with any of `COMMON` replace each other still.

    With those of another width, a model trained before could not be loaded any more,
    and with other utterances in them, its training would be another one.
    """
    changed = sorted(
        (name, str(value))
        for name, value in settings(given).items()
        if COMMON.get(name) != value
    )
    if not changed:
        return ""
    return f"_{hashlib.blake2b(repr(changed).encode(), digest_size=4).hexdigest()}"


def input_layer(given: Mapping[str, object]) -> object:
    """The encoder's `input_layer`, UNKNOWN for an encoder that has none."""
    own = given.get("encoder", OWN_SUBSAMPLING[0]) in OWN_SUBSAMPLING
    return given.get("encoder_conf.input_layer", UNKNOWN if own else "conv2d")


def has_ctc(given: Mapping[str, object]) -> bool:
    """Whether the training has a CTC."""
    return ctc_weight(given) != 0


def ctc_weight(given: Mapping[str, object]) -> float:
    """The CTC's share of the loss, the attention decoder's being the rest of 1."""
    return config.number(given, "model_conf.ctc_weight", 0.5)


def transduces(given: Mapping[str, object]) -> bool:
    """Whether the decoder is a transducer's."""
    return given.get("decoder") == "transducer"


def masks(given: Mapping[str, object]) -> bool:
    """Whether the model is Mask-CTC's, whose decoder guesses masked tokens."""
    return given.get("model") == "maskctc"


def has_accuracy(given: Mapping[str, object]) -> bool:
    """Whether the best models are chosen by the accuracy of a decoder.

    It goes on from token to token; a transducer and Mask-CTC have no accuracy.
    """
    asked = re.search(r"\bacc\b", str(given.get("best_model_criterion", "acc")))
    decodes = not (transduces(given) or masks(given)) and ctc_weight(given) != 1
    return decodes and asked is not None


def extracted(given: Mapping[str, object]) -> bool:
    """Whether stage 10 computes the features, of which it makes statistics."""
    return given.get("model_conf.extract_feats_in_collect_stats", True) is not False
