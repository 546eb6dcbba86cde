"""What a training's YAML cannot mean is told before any data are made."""

from pathlib import Path

import pytest

from espnet_srupp.recipe import asr
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options

SETS = {"train_set": "a", "valid_set": "b", "test_sets": "c", "ngpu": 0}


def test_a_wrong_key_of_the_encoder_is_told_before_the_data_are_prepared(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("encoder: srupp\nencoder_conf: {num_blocks: 2}\n")
    Path("c.yaml").write_text("{encoder: srupp, encoder_conf: , optim_conf: {lr: 1}}")
    Path("b.yaml").write_text("encoder: srupp\nencoder_conf: {hiden_size: 2}\n")
    said = "b.yaml or --asr_args has 'hiden_size' .* did you mean hidden_size?"
    with pytest.raises(RecipeError, match=said):
        asr.run(Options("no corpus", **SETS, asr_config="b.yaml a.yaml"))
    for path in ("a.yaml", "c.yaml", ""):
        with pytest.raises(RecipeError, match="no corpus"):
            asr.run(Options("no corpus", **SETS, asr_config=path))


@pytest.mark.parametrize(
    ("yaml", "asr_args", "said"),
    [
        ("{encoder: srupp, input_size: 80}", "", "a.yaml .* has input_size: 80, with"),
        ("{encoder: srupp, frontend: null}", "", "has frontend: null, with which ESP"),
        ("{encoder: srupp, input_size: 80}", "--input_size none", "no corpus"),
        # what ESPnet writes of a training of this recipe
        ("{encoder: srupp, frontend: default, input_size: null}", "", "no corpus"),
        # ESPnet's encoders that take samples
        ("{encoder: hubert, frontend: null, input_size: 1}", "", "no corpus"),
    ],
)
def test_samples_in_place_of_features_are_told_at_once(
    yaml, asr_args, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(yaml)
    with pytest.raises(RecipeError, match=said):
        asr.run(Options("no corpus", **SETS, asr_config="a.yaml", asr_args=asr_args))


@pytest.mark.parametrize(
    ("asr_args", "model", "said"),
    [
        ("--model_conf ctc_weight=1.0", "valid.acc.ave.pth", "there is no accuracy"),
        ("--model_conf ctc_weight=1.0", "valid.loss.ave.pth", "no corpus"),
        ("--model_conf ctc_weight=0.9", "valid.acc.ave.pth", "no corpus"),
        (
            "--best_model_criterion valid,loss,min",
            "valid.acc.ave.pth",
            "with its best_model_criterion there is no accuracy by which valid.acc",
        ),
        ("--best_model_criterion valid,loss,min", "valid.loss.ave.pth", "no corpus"),
        ("--best_model_criterion valid,acc,max", "valid.acc.ave.pth", "no corpus"),
        ("--decoder transducer", "valid.acc.ave.pth", "with a transducer there is no"),
        ("--decoder transducer", "valid.loss.ave.pth", "no corpus"),
        ("--model maskctc", "valid.acc.ave.pth", "with model maskctc there is no"),
        ("--model maskctc", "valid.loss.ave.pth", "maskctc, which stage 12 cannot"),
        (
            "--use_adapter true --save_strategy adapter_only",
            "valid.acc.ave.pth",
            "save_strategy adapter_only leaves parameters out",
        ),
        ("--use_adapter true --save_strategy all", "valid.acc.ave.pth", "no corpus"),
        ("--use_adapter true", "valid.acc.ave.pth", "no corpus"),
        ("--save_strategy adapter_only", "valid.acc.ave.pth", "no corpus"),
    ],
)
def test_a_training_whose_model_would_not_be_decoded_is_told_at_once(
    asr_args, model, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    # whose name would have a comma else, which ESPnet's decoding does not take
    own = {"asr_args": asr_args, "asr_tag": "x", "inference_asr_model": model}
    given = Options("no corpus", **SETS, **own)
    with pytest.raises(RecipeError, match=said):
        asr.run(given)


def test_a_model_that_stage_12_does_not_decode_can_be_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"asr_args": "--model maskctc", "inference_asr_model": "valid.loss.ave.pth"}
    with pytest.raises(RecipeError, match="no corpus"):
        asr.run(Options("no corpus", **SETS, **given, stop_stage=11))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"asr_config": "a.yaml b.yaml"}, "init_param, .* place of exp/asr_a.*ave.pth"),
        (
            {"asr_config": "a.yaml", "pretrained_model": "y.pth"},
            "in the place of y.pth",
        ),
        ({"asr_config": "a.yaml"}, "no corpus"),
    ],
)
def test_a_model_to_begin_with_that_another_would_replace_is_told_at_once(
    options, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        Path(f"{name}.yaml").write_text("{}")
    given = Options("no corpus", **SETS, asr_args="--init_param x.pth", **options)
    with pytest.raises(RecipeError, match=said):
        asr.run(given)


@pytest.mark.parametrize(
    ("yaml", "options", "said"),
    [
        ("normalize: null", {}, "normalize: null, .* ESPnet global_mvn in its place"),
        ("normalize: utterance_mvn", {}, "give --feats_normalize"),
        ("normalize: null", {"feats_normalize": "utterance_mvn"}, "no corpus"),
        ("token_type: phn", {}, "token_type: phn, .* ESPnet bpe .*give --token_type"),
        ("cleaner: tacotron", {}, "cleaner: tacotron, .* none in its place: leave it"),
        # what ESPnet writes of a training of this recipe
        ("{cleaner: null, g2p: none, token_type: bpe}", {}, "no corpus"),
        ("{non_linguistic_symbols: None, cleaner: nil}", {}, "no corpus"),
        # what comes after that of run.sh
        ("cleaner: null", {"asr_args": "--normalize none --cleaner x"}, "no corpus"),
    ],
)
def test_a_setting_that_run_sh_replaces_is_told_at_once(
    yaml, options, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(yaml)
    with pytest.raises(RecipeError, match=said):
        asr.run(Options("no corpus", **SETS, asr_config="a.yaml", **options))
