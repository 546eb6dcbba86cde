"""Folders and files are named as asr.sh names them."""

from pathlib import Path

import pytest

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import check_decoding, check_lengths, layout
from espnet_srupp.recipe.options import Options

CONF = Path(__file__).parents[1] / "conf" / "an4"
GIVEN = {
    "corpus": "an4",
    "train_set": "train_nodev",
    "valid_set": "train_dev",
    "test_sets": "train_dev test",
    "asr_config": str(Path(__file__).parent / "data" / "train.yaml"),
}


def names(**options):
    return layout(Options(**{**GIVEN, **options}))


@pytest.mark.parametrize(
    ("options", "exp", "stats"),
    [
        pytest.param(
            {
                "asr_config": f"{CONF}/train_asr_srupp.yaml",
                "lang": "en",
                "speed_perturb_factors": "0.9 1.0 1.1",
            },
            "exp/asr_train_asr_srupp_raw_en_bpe30_sp",
            "exp/asr_stats_raw_en_bpe30_sp",
            id="recipe",
        ),
        pytest.param({}, "exp/asr_train_raw_bpe30", "exp/asr_stats_raw_bpe30", id="no"),
        pytest.param(
            {"token_type": "char", "lang": "zh", "expdir": "e"},
            "e/asr_train_raw_zh_char",
            "e/asr_stats_raw_zh_char",
            id="char",
        ),
        pytest.param(
            {"asr_args": "--max_epoch 10 --optim_conf lr=0.1"},
            "exp/asr_train_raw_bpe30_max_epoch10_optim_conflr0.1",
            "exp/asr_stats_raw_bpe30",
            id="overrides",
        ),
        pytest.param(
            {"asr_tag": "mine", "speed_perturb_factors": "0.9"},
            "exp/asr_mine",
            "exp/asr_stats_raw_bpe30_sp",
            id="tag",
        ),
        pytest.param(
            {"train_joined": 3, "speed_perturb_factors": "0.9"},
            "exp/asr_train_raw_bpe30_sp_join3",
            "exp/asr_stats_raw_bpe30_sp_join3",
            id="joined",
        ),
        pytest.param(
            {"asr_exp": "/x/y", "asr_stats_dir": "/z"}, "/x/y", "/z", id="folders"
        ),
    ],
)
def test_experiment(options, exp, stats):
    made = names(**options)
    assert made.exp == Path(exp)
    assert made.stats == Path(stats)


@pytest.mark.parametrize(
    ("options", "tag"),
    [
        pytest.param({}, "inference_asr_model_valid.acc.ave", id="default"),
        pytest.param(
            {"inference_config": "conf/decode_asr.yaml"},
            "decode_asr_asr_model_valid.acc.ave",
            id="config",
        ),
        pytest.param(
            {"inference_args": "--beam_size 5", "inference_asr_model": "a/10epoch.pth"},
            "inference_beam_size5_asr_model_a_10epoch",
            id="overrides",
        ),
        pytest.param({"inference_tag": "mine"}, "mine", id="tag"),
        pytest.param(
            {"inference_args": "--beam_size 5\n\t--penalty 1"},
            "inference_beam_size5_penalty1_asr_model_valid.acc.ave",
            id="lines",
        ),
        pytest.param(
            {"use_lm": True, "lm_config": "conf/train_lm.yaml", "lang": "en"},
            "inference_lm_lm_train_lm_en_bpe30_valid.loss.ave_asr_model_valid.acc.ave",
            id="language model",
        ),
    ],
)
def test_inference(options, tag):
    assert names(**options).inference == tag


@pytest.mark.parametrize("kind", ["asr", "lm", "inference"])
def test_a_name_too_long_for_a_folder_is_refused(kind):
    check_lengths(names())
    with pytest.raises(RecipeError, match=f"too long .*: give --{kind}_tag"):
        check_lengths(names(**{f"{kind}_args": "--ctc_weight 0.3 " * 20}))


def test_a_decoding_whose_name_espnet_would_cut_in_two_is_refused():
    check_decoding(names())
    for option in ("asr_args", "inference_args"):
        with pytest.raises(RecipeError, match="has a comma: give --asr_tag"):
            check_decoding(names(**{option: "--specaug_conf width=[0,40]"}))


@pytest.mark.parametrize(
    ("options", "exp", "stats"),
    [
        ({}, "exp/lm_train_bpe30", "exp/lm_stats_bpe30"),
        (
            {"lang": "zh", "token_type": "char", "lm_config": "conf/lm.yaml"},
            "exp/lm_lm_zh_char",
            "exp/lm_stats_zh_char",
        ),
        (
            {"lm_args": "--lm_conf unit=8", "speed_perturb_factors": "0.9 1.0"},
            "exp/lm_train_bpe30_lm_confunit8",
            "exp/lm_stats_bpe30",
        ),
        ({"lm_tag": "mine"}, "exp/lm_mine", "exp/lm_stats_bpe30"),
        ({"lm_exp": "/x/y", "lm_stats_dir": "/z"}, "/x/y", "/z"),
    ],
    ids=["no", "char", "overrides", "tag", "folders"],
)
def test_language_model(options, exp, stats):
    made = names(**options)
    assert made.lm_exp == Path(exp)
    assert made.lm_stats == Path(stats)


def test_language_model_is_measured_on_what_it_was_not_validated_on():
    made = names()
    assert made.lm_train == Path("dump/raw/lm_train.txt")
    assert made.lm_valid == Path("dump/raw/org/train_dev/text")
    assert made.lm_test == Path("dump/raw/test/text")
    assert names(test_sets="train_dev").lm_test == made.lm_valid
    given = names(lm_dev_text="a/text", lm_test_text="b/text")
    assert (given.lm_valid, given.lm_test) == (Path("a/text"), Path("b/text"))


@pytest.mark.parametrize(
    ("options", "token_list", "bpemodel"),
    [
        (
            {"lang": "en", "nbpe": 30},
            "data/en_token_list/bpe_unigram30/tokens.txt",
            "data/en_token_list/bpe_unigram30/bpe.model",
        ),
        ({"token_type": "char"}, "data/token_list/char/tokens.txt", None),
        ({"token_type": "word"}, "data/token_list/word/tokens.txt", None),
    ],
    ids=["bpe", "char", "word"],
)
def test_tokens(options, token_list, bpemodel):
    made = names(**options)
    assert made.token_list == Path(token_list)
    assert made.bpemodel == (Path(bpemodel) if bpemodel else None)


def test_perturbed_training_set_and_dumped_sets():
    made = names(speed_perturb_factors="0.9 1.0 1.1")
    assert made.train_set == "train_nodev_sp"
    assert made.train == Path("dump/raw/train_nodev_sp")
    assert made.valid == Path("dump/raw/train_dev")


@pytest.mark.parametrize(
    ("options", "sets"),
    [
        pytest.param({}, ["org/train_dev", "test"], id="validation set among them"),
        pytest.param(
            {"test_sets": "test train_dev"},
            ["org/train_dev", "test"],
            id="validation set first",
        ),
        pytest.param({"test_sets": "a b"}, ["a", "b"], id="others"),
        pytest.param(
            {"test_sets": "a", "eval_valid_set": True},
            ["org/train_dev", "a"],
            id="eval_valid_set",
        ),
        pytest.param(
            {"test_sets": "train_nodev a"},
            ["org/train_nodev", "a"],
            id="training set among them",
        ),
        pytest.param(
            {"test_sets": "train_nodev a", "speed_perturb_factors": "0.9 1.0"},
            ["train_nodev", "a"],
            id="training set of one speed",
        ),
    ],
)
def test_sets_to_decode(options, sets):
    made = names(**options)
    assert list(made.tests) == sets
    assert list(made.tests.values()) == [Path("dump/raw", name) for name in sets]


@pytest.mark.parametrize(
    ("words", "shared"),
    [
        ("--max_epoch 3 --encoder_conf num_blocks=2", True),
        ("--frontend_conf hop_length=160", True),
        ("--frontend_conf hop_length=80", False),
        ("--frontend_conf n_mels=40 --frontend_conf fmin=20", False),
        ("--speech_volume_normalize 0.5", False),
    ],
)
def test_other_features_have_statistics_of_their_own(words, shared):
    usual = names(asr_config=f"{CONF}/train_asr_srupp.yaml").stats
    changed = names(asr_config=f"{CONF}/train_asr_srupp.yaml", asr_args=words).stats
    assert (changed == usual) == shared
    assert changed.name.startswith(usual.name)


def test_statistics_of_the_same_features_are_shared_however_they_are_set():
    hop = names(
        asr_config=f"{CONF}/train_asr_srupp.yaml",
        asr_args="--frontend_conf hop_length=80",
    )
    dense = names(asr_config=f"{CONF}/train_asr_srupp_dense.yaml")
    assert hop.stats == dense.stats


def test_the_length_of_a_name_is_that_of_its_bytes():
    # as file systems count it; twice as many as letters
    check_lengths(names(asr_tag="é" * 90))
    with pytest.raises(RecipeError, match="too long .*: give --asr_tag"):
        check_lengths(names(asr_tag="é" * 110))
