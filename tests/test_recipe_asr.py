"""Which stages run, how run.sh ends, and that the recipes' own options are right."""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from espnet_srupp.recipe import asr, decoding
from espnet_srupp.recipe.corpora import librispeech
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "recipes").glob("*/asr1"))
SETS = ["--train_set", "train", "--valid_set", "dev", "--test_sets", "test"]
ALL = [1, 2, 3, 4, 5, 10, 11, 12, 13]


@pytest.mark.parametrize(
    ("options", "stages"),
    [
        pytest.param({}, ALL, id="all but packing"),
        pytest.param({"skip_packing": False}, [*ALL, 14], id="packing"),
        pytest.param({"longform": "1 3"}, [*ALL, 15], id="long recordings"),
        pytest.param({"stage": 14}, [], id="neither packing nor long recordings"),
        pytest.param({"stage": 3, "stop_stage": 4}, [3, 4], id="some"),
        pytest.param({"stage": 0}, ALL, id="all, as from 0"),
        pytest.param({"stage": 5, "stop_stage": 8}, [5], id="no language model"),
        pytest.param(
            {"stage": 5, "stop_stage": 10, "use_lm": True},
            [5, 6, 7, 8, 10],
            id="language model",
        ),
        pytest.param({"skip_stages": "1 2 11"}, [3, 4, 5, 10, 12, 13], id="left out"),
        pytest.param({"skip_data_prep": True}, [10, 11, 12, 13], id="skip_data_prep"),
        pytest.param({"skip_train": True}, [1, 3, 12, 13], id="skip_train"),
        pytest.param({"skip_eval": True}, [1, 2, 3, 4, 5, 10, 11], id="skip_eval"),
    ],
)
def test_stages(options, stages):
    assert asr.chosen(Options(**options)) == stages


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stage": 6, "stop_stage": 8}, "need --use_lm true"),
        ({"stage": 9, "stop_stage": 9, "use_lm": True}, "stage 9.*is not there"),
        ({"stage": 15}, 'give for example --longform "1 3 10 30"'),
        ({"stage": 16}, "1 to 15"),
        ({"stage": 5, "stop_stage": 3}, "--stage 5 is after --stop_stage 3: swap"),
    ],
)
def test_stages_that_are_not_there(options, said):
    with pytest.raises(RecipeError, match=said):
        asr.chosen(Options(**options))


def test_stages_that_are_all_left_out_are_told(capsys):
    assert asr.chosen(Options(stage=14, stop_stage=14)) == []
    assert "nothing to do from stage 14 to 14: packing needs" in capsys.readouterr().out


def test_language_model_without_weight_is_a_mistake(tmp_path):
    config = tmp_path / "decode.yaml"
    config.write_text("lm_weight: 0.0\n")
    given = {"use_lm": True, "inference_config": str(config)}
    with pytest.raises(RecipeError, match="decode.yaml.*give --inference_args .--lm_w"):
        asr.check_weight(Options(**given))
    asr.check_weight(Options(**given, inference_args="--lm_weight 0.2"))
    with pytest.raises(RecipeError, match="is 0 in --inference_args, so"):
        asr.check_weight(Options(use_lm=True, inference_args="--lm_weight 0"))
    # ESPnet's own weight is 1
    asr.check_weight(Options(use_lm=True))


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RecipeError("a is wrong: do b"), 1, "error: a is wrong: do b"),
        (KeyboardInterrupt(), 130, "interrupted: "),
        (ModuleNotFoundError(name="soxr"), 1, "no module soxr: run pip install"),
        (ImportError("recurrence: need CuPy"), 1, "error: recurrence: need CuPy"),
        (OSError(errno.ENOSPC, "No space left"), 1, "no space left on the file system"),
        (PermissionError(errno.EACCES, "may not read", "a"), 1, "may not read: 'a'"),
    ],
    ids=["mistake", "interrupt", "module", "CuPy", "full disk", "permission"],
)
def test_end_is_one_line_and_an_exit_code(monkeypatch, capsys, error, code, said):
    def fail(_):
        raise error

    monkeypatch.setattr(asr, "run", fail)
    assert asr.main(["--corpus", "mini", *SETS]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_bug_is_not_hidden(monkeypatch):
    def fail(_):
        raise ValueError

    monkeypatch.setattr(asr, "run", fail)
    with pytest.raises(ValueError):
        asr.main(["--corpus", "mini", *SETS])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.parent.name)
def test_run_sh_holds_data_and_no_logic(recipe):
    lines = (recipe / "run.sh").read_text().splitlines()
    assert len(lines) < 45
    assert lines[-1].strip() == '"$@"'
    assert not {"if", "for", "while", "case"} & set(" ".join(lines[4:]).split())
    corpus = recipe.parent.name
    assert (recipe / "conf").resolve() == ROOT / "conf" / corpus
    assert os.readlink(recipe / "conf") == f"../../../conf/{corpus}"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.parent.name)
def test_own_options_and_files_of_run_sh_are_right(recipe, tmp_path):
    # in the folder where the command is given
    (tmp_path / "text").touch()
    done = subprocess.run(
        [str(recipe / "run.sh"), "--stage", "16", "--bpe_train_text", "text"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": path(), "VIRTUAL_ENV": sys.prefix},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: --stage 16 ")


def test_run_sh_finds_itself_by_a_link_and_whatever_cdpath_is(tmp_path):
    (tmp_path / "asr1").symlink_to(RECIPES[0])
    decoy = tmp_path / "decoy" / "asr1"
    decoy.mkdir(parents=True)
    done = subprocess.run(
        ["bash", "asr1/run.sh", "--stage", "16"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": path(), "CDPATH": str(decoy.parent)},
    )
    assert done.stderr.startswith("error: --stage 16 ")


def path():
    """PATH with this very Python first."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def test_a_missing_gpu_is_told_before_the_data_are_prepared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    with pytest.raises(RecipeError, match="--ngpu 9: torch finds"):
        asr.run(Options("no corpus", **sets, ngpu=9))
    with pytest.raises(RecipeError, match="no corpus"):
        asr.run(Options("no corpus", **sets, ngpu=9, stop_stage=10))
    # a finished training needs none any more
    Path("exp/asr_x").mkdir(parents=True)
    with pytest.raises(RecipeError, match="no corpus"):
        asr.run(Options("no corpus", **sets, ngpu=9, asr_tag="x"))


def test_a_language_model_without_weight_may_be_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c", "ngpu": 0}
    given = Options("no corpus", **sets, use_lm=True, inference_args="--lm_weight 0")
    with pytest.raises(RecipeError, match="lm_weight is 0"):
        asr.run(given)
    with pytest.raises(RecipeError, match="no corpus"):
        asr.run(replace(given, stop_stage=8))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"asr_config": "b.yaml", "asr_tag": "x" * 194}, "no corpus"),
        # the first of two has the name of its configuration as well
        (
            {"asr_config": "a.yaml b.yaml", "asr_tag": "x" * 195},
            "too long .*asr_tag",
        ),
        ({"inference_tag": "a,b"}, "a,b, whose name has a comma"),
    ],
)
def test_a_mistake_in_any_training_is_told_before_the_data_are_prepared(
    tmp_path, monkeypatch, given, said
):
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml"):
        Path(name).write_text("encoder: srupp\n")
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c", "ngpu": 0}
    with pytest.raises(RecipeError, match=said):
        asr.run(Options("no corpus", **sets, **given))


def test_a_missing_gpu_for_decoding_is_told_before_the_data_are_prepared(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(decoding, "gpus_here", lambda: 0)
    given = {"train_set": "a", "valid_set": "b", "test_sets": "c", "ngpu": 0}
    with pytest.raises(RecipeError, match="--gpu_inference true: torch finds no GPU"):
        asr.run(Options("no corpus", **given, gpu_inference=True))


def test_a_corpus_that_is_not_noted_any_more_is_sought_elsewhere(tmp_path, monkeypatch):
    def prepare(data, downloads, folder, partial):
        sought.append(folder)
        for name in ("train", "dev", "test"):
            (data / name).mkdir(parents=True, exist_ok=True)
            (data / name / ".corpus").touch()

    sought = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(librispeech, "prepare", prepare)
    command = ["--corpus", "librispeech", *SETS, "--stop_stage", "1"]
    assert asr.main([*command, "--LIBRISPEECH", str(tmp_path)]) == 0
    # where all see it who share that folder
    assert Path("data/.locks").exists() and not Path(".locks").exists()
    assert asr.main([*command, "--force", "true"]) == 0
    # as the second command says
    Path("data/.corpus").unlink()
    assert asr.main(command) == 0
    assert sought == [tmp_path, tmp_path, None]
