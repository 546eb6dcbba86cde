"""Statistics are shared by configurations that have the same ones, and by no others."""

import inspect
from pathlib import Path

import pytest

from espnet_srupp.recipe import config, features

CONF = Path(__file__).parents[1] / "conf"


def test_only_what_changes_the_features_counts():
    assert features.settings(
        {
            "encoder": "srupp",
            "encoder_conf.num_blocks": 4,
            "frontend_conf.n_fft": 512,
            "frontend": "default",
            "input_size": 80,
            "model_conf.ctc_weight": 0.3,
            "optim": "adam",
            "preprocessor_conf.rir_scp": "x",
            "speech_volume_normalize": "0.05",
        }
    ) == {
        "frontend_conf.n_fft": 512,
        "frontend": "default",
        "input_size": 80,
        "preprocessor_conf.rir_scp": "x",
        "speech_volume_normalize": "0.05",
    }


def test_whether_there_is_a_ctc_counts_as_it_decides_what_is_too_short():
    settings = {"encoder": "srupp", "model_conf.ctc_weight": 0.3}
    assert features.settings(settings) == {}
    assert features.settings(settings | {"model_conf.ctc_weight": 0.0}) != {}


def test_how_many_frames_ctc_has_counts():
    kept = [
        features.settings(settings)
        for settings in (
            {"encoder": "conformer"},
            {"encoder": "srupp", "encoder_conf.input_layer": "conv2d8"},
            {"encoder": "rnn"},
        )
    ]
    assert kept[0] == {} and kept[1] != {} and kept[2] not in kept[:2]


def test_espnets_encoders_have_conv2d_or_a_subsampling_of_their_own():
    from espnet2.tasks.asr import encoder_choices

    default = features.input_layer({"encoder": encoder_choices.default})
    assert features.input_layer({}) == default
    for name, encoder in encoder_choices.classes.items():
        option = inspect.signature(encoder).parameters.get("input_layer")
        default = features.UNKNOWN if option is None else option.default
        assert features.input_layer({"encoder": name}) == default


@pytest.mark.parametrize("corpus", ["an4", "aishell", "librispeech", "tedlium3"])
def test_configurations_with_other_settings_have_another_folder(corpus):
    files = sorted(CONF.glob(f"{corpus}/**/train_asr*.yaml"))
    found = [config.read(str(path)) for path in files]
    tags = {
        (features.tag(given), repr(sorted(features.settings(given).items())))
        for given in found
    }
    assert len(tags) > 1
    assert len({tag for tag, _ in tags}) == len(tags) == len({s for _, s in tags})


def test_the_order_of_settings_does_not_matter():
    given = {"encoder": "srupp", "frontend_conf.n_mels": 40, "frontend_conf.fmin": 20}
    backward = dict(reversed(given.items()))
    assert features.tag(given) == features.tag(backward) != ""


def test_a_setting_is_the_same_in_a_yaml_and_on_the_command_line(tmp_path):
    (tmp_path / "train.yaml").write_text("speech_volume_normalize: 0.5\n")
    yaml = config.read(tmp_path / "train.yaml")
    words = config.read("", "--speech_volume_normalize 0.5")
    assert features.tag(yaml) == features.tag(words) != ""
