"""run.sh's command line: asr.sh's names and values, one sentence when wrong."""

import os
from dataclasses import fields
from pathlib import Path

import pytest

from espnet_srupp.recipe.arguments import parse
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options

REQUIRED = "--corpus mini --train_set train --valid_set dev --test_sets test".split()

# the options of asr.sh (202511) that the recipes know
ASR_SH = """stage stop_stage skip_stages skip_data_prep skip_train skip_eval
skip_packing eval_valid_set ngpu num_nodes nj inference_nj gpu_inference dumpdir expdir
python
speed_perturb_factors audio_format fs min_wav_duration max_wav_duration token_type nbpe
bpemode oov blank sos_eos bpe_nlsyms bpe_char_cover bpe_train_text lang asr_tag asr_exp
asr_stats_dir asr_config asr_args pretrained_model ignore_init_mismatch feats_normalize
asr_speech_fold_length asr_text_fold_length inference_tag inference_config
inference_args inference_asr_model use_lm lm_config lm_args lm_tag lm_exp lm_stats_dir
lm_train_text lm_dev_text lm_test_text lm_fold_length inference_lm train_set valid_set
test_sets score_opts""".split()
OURS = ["corpus", "archive", "force", "LIBRISPEECH", "AISHELL", "TEDLIUM3", "OWN"]
OURS += ["cuda_cmd", "host", "scheduler"]
OURS += ["check", "strict", "partial", "resample"]
OURS += ["longform", "longform_models", "longform_join_args", "longform_args"]
OURS += ["train_joined", "model_license"]


def options(*words, caller=Path(".")):
    return parse([*REQUIRED, *words], caller)


def mistake(*words):
    """The one sentence that a command line is refused with."""
    with pytest.raises(RecipeError) as error:
        options(*words)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_names_are_those_of_asr_sh():
    assert {item.name for item in fields(Options)} == {*ASR_SH, *OURS}


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        pytest.param(["--nbpe", "50"], "nbpe", 50, id="number"),
        pytest.param(["--nbpe=50"], "nbpe", 50, id="equals sign"),
        pytest.param(["--asr-tag", "a"], "asr_tag", "a", id="dashes in the name"),
        pytest.param(["--skip_packing", "false"], "skip_packing", False, id="boolean"),
        pytest.param(["--check"], "check", True, id="boolean alone"),
        pytest.param(["--scheduler"], "scheduler", "local", id="scheduler alone"),
        pytest.param(["--scheduler", "a:1"], "scheduler", "a:1", id="scheduler"),
        pytest.param(["--check", "--nbpe", "5"], "check", True, id="boolean in front"),
        pytest.param(
            ["--asr_args", "--max_epoch=3"], "asr_args", "--max_epoch=3", id="dashes"
        ),
        pytest.param(
            ["--asr_args", "--a 1 --b 2"], "asr_args", "--a 1 --b 2", id="several words"
        ),
        pytest.param(["--score_opts", "-s"], "score_opts", "-s", id="single dash"),
        pytest.param(["--asr_tag", ""], "asr_tag", "", id="empty"),
        pytest.param(["--asr_tag", "50 %"], "asr_tag", "50 %", id="percent sign"),
        pytest.param(["--nbpe", "50", "--nbpe", "60"], "nbpe", 60, id="last one wins"),
    ],
)
def test_value(words, name, value):
    assert getattr(options(*words), name) == value


@pytest.mark.parametrize(
    ("words", "culprits"),
    [
        pytest.param(["--nbp", "5"], ["--nbp", "--nbpe"], id="nearest name"),
        pytest.param(["--stop-stge", "5"], ["--stop_stage"], id="nearest with dashes"),
        pytest.param(["--use_ngram", "true"], ["--use_ngram"], id="not implemented"),
        pytest.param(["--xyzzy", "5"], ["--xyzzy", "--help"], id="nothing near"),
        pytest.param(["--stag", "5"], ["--stag", "--stage"], id="no abbreviations"),
        pytest.param(["5"], ["'5'"], id="positional"),
        pytest.param(["-x", "5"], ["'-x'"], id="one dash"),
        pytest.param(["--stage"], ["--stage", "value"], id="no value"),
        pytest.param(["--asr_args", "--"], ["--asr_args needs"], id="no value, dashes"),
        pytest.param(["--stage", "x"], ["--stage", "'x'"], id="not a number"),
        pytest.param(["--force", "yes"], ["--force", "true or false"], id="boolean"),
        pytest.param(["--token_type", "phn"], ["--token_type", "bpe"], id="choice"),
        pytest.param(
            ["--longform_models", "a=no/exp"],
            ["--longform_models no/exp: there is no such folder"],
            id="no such model",
        ),
        pytest.param(["--asr_config", "no.yaml"], ["no.yaml"], id="no such file"),
        pytest.param(
            ["--corpus", "aishell", "--AISHELL", "no"], ["--AISHELL no"], id="no folder"
        ),
    ],
)
def test_mistake_is_named_in_one_sentence(words, culprits):
    sentence = mistake(*words)
    assert all(culprit in sentence for culprit in culprits)


@pytest.mark.parametrize(
    ("fs", "rate"),
    [("16k", 16000), ("8000", 8000), ("22.05k", 22050), ("8.001k", 8001)],
)
def test_rate_is_in_hertz(fs, rate):
    assert options("--fs", fs).rate == rate


@pytest.mark.parametrize("fs", ["8k", "8000", "8.0k", "8000.0"])
def test_one_rate_is_spelt_in_one_way(fs):
    assert options("--fs", fs).fs == "8k"
    assert options("--fs", "11025").fs == options("--fs", "11.025k").fs == "11025"


def test_files_are_sought_in_the_callers_folder(tmp_path):
    for name in ("my first.yaml", "my.yaml"):
        (tmp_path / name).touch()
    given = options("--asr_config", "'my first.yaml' my.yaml", caller=tmp_path)
    assert given.asr_configs == [f"{tmp_path}/my first.yaml", f"{tmp_path}/my.yaml"]
    for name in ("lm_config", "inference_config", "archive"):
        # the last of which is an option of some recipes
        corpus = ["--corpus", "an4"] if name == "archive" else []
        given = options(*corpus, f"--{name}", "my.yaml", caller=tmp_path)
        assert getattr(given, name) == f"{tmp_path}/my.yaml"


@pytest.mark.parametrize("keys", ["", ":encoder:encoder:encoder.embed"])
def test_a_model_to_begin_with_is_sought_too(tmp_path, keys):
    (tmp_path / "my.pth").touch()
    given = options("--pretrained_model", f"my.pth{keys}", caller=tmp_path)
    assert given.pretrained_model == f"{tmp_path / 'my.pth'}{keys}"
    with pytest.raises(RecipeError, match="--pretrained_model no.pth: there is no su"):
        options("--pretrained_model", f"no.pth{keys}", caller=tmp_path)


def test_text_for_tokens_may_be_there_later(tmp_path):
    (tmp_path / "books").touch()
    for given, found in (("data/train/text",) * 2, ("books", f"{tmp_path}/books")):
        words = ["--bpe_train_text", given]
        assert options(*words, caller=tmp_path).bpe_train_text == found


def test_text_for_a_language_model_may_be_there_later(tmp_path):
    for name in ("books.gz", "more books"):
        (tmp_path / name).touch()
    words = ["--lm_train_text", "data/train/text books.gz 'more books'"]
    given = options(*words, "--lm_dev_text", "books.gz", caller=tmp_path)
    theirs = [f"{tmp_path}/books.gz", f"{tmp_path}/more books"]
    assert given.lm_texts == ["data/train/text", *theirs]
    assert given.lm_dev_text == str(tmp_path / "books.gz")
    assert (given.lm_test_text, options().lm_texts) == ("", [])


def test_a_corpus_is_sought_in_the_callers_folder_and_has_an_absolute_path(tmp_path):
    (tmp_path / "AISHELL-1").mkdir()
    for path in ("AISHELL-1/.", "."):
        words = ["--corpus", "aishell", "--AISHELL", path]
        given = options(*words, caller=tmp_path)
        # though the recipe has such a folder too
        expected = os.path.abspath(tmp_path / path)
        assert given.AISHELL == given.folder == expected
    assert options().folder == ""


def test_a_corpus_in_a_folder_whose_name_records_could_not_hold_is_refused(tmp_path):
    caller = tmp_path / "\udce9"
    caller.mkdir()
    with pytest.raises(RecipeError, match=r"\\udce9 is not UTF-8: rename it"):
        options("--corpus", "aishell", "--AISHELL", ".", caller=caller)


def test_models_to_compare_are_sought_in_the_callers_folder(tmp_path):
    for name in ("exp a", "b"):
        (tmp_path / name).mkdir()
    given = options("--longform_models", "one='exp a' two=b", caller=tmp_path)
    found = {name: Path(folder).resolve() for name, folder in given.others.items()}
    assert found == {"one": tmp_path / "exp a", "two": tmp_path / "b"}
    assert options().others == {}


def test_numbers_of_utterances_to_join_are_sorted():
    assert options("--longform", "10 1 3 1").joined == [1, 3, 10]
    assert options().joined == []


def test_files_of_the_recipe_come_first(tmp_path, monkeypatch):
    recipe, caller = tmp_path / "recipe", tmp_path / "caller"
    for folder in (recipe, caller):
        folder.mkdir()
        (folder / "my.yaml").touch()
    monkeypatch.chdir(recipe)
    assert options("--asr_config", "my.yaml", caller=caller).asr_config == "my.yaml"


@pytest.mark.parametrize("name", ["asr_config", "lm_config", "inference_config"])
def test_one_of_two_configurations_of_a_name_is_not_chosen_for_the_user(
    name, tmp_path, monkeypatch
):
    recipe, caller = tmp_path / "recipe", tmp_path / "caller"
    for folder in (recipe, caller):
        folder.mkdir()
        (folder / "my.yaml").write_text(folder.name)
    monkeypatch.chdir(recipe)
    defaults = [f"--{name}", "my.yaml"]
    assert getattr(options(*defaults, caller=caller), name) == "my.yaml"
    for given in (["--" + name, "my.yaml"], [f"--{name}=my.yaml"]):
        with pytest.raises(RecipeError, match=f"--{name} my.yaml.*recipe and.*caller"):
            options(*defaults, *given, caller=caller)
    if name == "asr_config":
        with pytest.raises(RecipeError, match="--asr_config my.yaml: there is one in"):
            options(*defaults, f"--{name}", "other.yaml my.yaml", caller=caller)
    path = str(caller / "my.yaml")
    assert getattr(options(*defaults, f"--{name}", path, caller=caller), name) == path


def test_help_shows_every_option_with_its_default(capsys):
    with pytest.raises(SystemExit):
        options("--help")
    shown = capsys.readouterr().out
    for item in fields(Options):
        assert f"--{item.name} " in shown
    assert "(default: 30)" in shown
    assert "(default: false)" in shown


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_no_value_of_an_option_that_needs_none(word, capsys):
    with pytest.raises(SystemExit):
        options("--check", word)
    assert "--stop_stage N" in capsys.readouterr().out


def test_help_shows_what_the_recipe_gives(capsys):
    with pytest.raises(SystemExit):
        words = ("--nbpe", "5000", "--use_lm", "true", "--oov", "100%")
        options(*words, "--help", "--nbpe", "7")
    shown = capsys.readouterr().out
    assert "(default: 100%)" in shown
    assert "number of BPE tokens (default: 5000)" in shown
    assert "train it and decode with it (default: true)" in shown
