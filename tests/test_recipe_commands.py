"""Training on other machines: what their command lines become, told by stand-ins."""

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from espnet2.bin import launch
from espnet2.tasks.lm import LMTask

from espnet_srupp.recipe import commands
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.task import ASRTask

RECORD = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["RECORD"], "a") as file:
    print(json.dumps([os.getcwd(), os.environ["PYTHONPATH"], *sys.argv]), file=file)
"""
# as sshd does: the words after the host go to a shell as one line
SSH = """#!/usr/bin/env bash
shift
PYTHONPATH=
exec bash -c "$*"
"""
SEED = r"--seed 'a \$b'"
SETS = {"train_set": "a", "valid_set": "b", "test_sets": "c", "asr_tag": "x"}
SHORT = {
    **{"asr_speech_fold_length": 700, "asr_text_fold_length": 90},
    "ignore_init_mismatch": True,
}


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """The words of every process that a launched training would start."""
    bin = tmp_path / "a bin"
    bin.mkdir()
    for name, text in (("slurm.pl", RECORD), ("python", RECORD), ("ssh", SSH)):
        (bin / name).write_text(text)
        (bin / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("PYTHONPATH", "a $place")
    monkeypatch.setenv("ESPNET_SRUPP_DETERMINISTIC", "1")
    monkeypatch.chdir(tmp_path)

    def start(ngpu, **given):
        python = f"'{bin}/python' -m espnet_srupp.run"
        options = Options(**SETS, python=python, asr_args=SEED, **given)
        names = layout(options)
        words = commands.training(options, names, ngpu)
        words = commands.launched(options, names.exp, ngpu, words)
        assert words[:2] == ["-m", "espnet2.bin.launch"]
        launch.main(words[2:])
        lines = (tmp_path / "record").read_text().splitlines()
        return bin, sorted(map(json.loads, lines))

    return start


def value(words, name):
    """What an option is in the end: the last one wins."""
    return [
        after for word, after in zip(words, words[1:], strict=False) if word == name
    ][-1]


def test_slurm_starts_one_process_on_each_machine(launched):
    bin, [[folder, _, program, *words]] = launched(
        4, num_nodes=2, cuda_cmd="slurm.pl --time 48:00"
    )
    assert program == str(bin / "slurm.pl")
    sizes = "--time 48:00 --gpu 4 --num_threads 4 --num_nodes 2".split()
    log = "exp/asr_x/train.log"
    assert words[: len(sizes) + 3] == [*sizes, log, "srun", "--export=ALL"]
    rest = words[len(sizes) + 3 :]
    # slurm.pl's sbatch exports PATH alone
    handed = ["env", "PYTHONPATH=a $place", "ESPNET_SRUPP_DETERMINISTIC=1"]
    assert rest[:3] == handed
    del rest[:3]
    start = [str(bin / "python"), "-m", "espnet_srupp.run", "-m"]
    assert rest[:5] == [*start, "espnet2.bin.asr_train"]
    assert value(rest, "--ngpu") == "4"
    assert value(rest, "--multiprocessing_distributed") == "true"
    assert value(rest, "--dist_launcher") == "slurm"
    shared = value(rest, "--dist_init_method")
    assert shared.startswith(f"file://{folder}/exp/.dist_init_")
    assert value(rest, "--seed") == r"a \$b"


def test_ssh_starts_one_process_for_each_gpu(launched):
    bin, processes = launched(2, host="one,two:3")
    ranks = {}
    for folder, path, program, *words in processes:
        assert (folder, program) == (str(bin.parent), str(bin / "python"))
        # which a login by SSH does not have
        assert path == "a $place"
        assert words[:3] == ["-m", "espnet_srupp.run", "-m"]
        assert value(words, "--dist_world_size") == "3"
        assert value(words, "--ngpu") == "1"
        assert value(words, "--multiprocessing_distributed") == "false"
        assert value(words, "--seed") == r"a \$b"
        ranks[value(words, "--dist_rank")] = value(words, "--local_rank")
    assert ranks == {"0": "0", "1": "1", "2": "3"}


def test_one_machine_needs_no_launcher():
    options = Options(**SETS, ngpu=4)
    assert not options.launched
    words = commands.training(options, layout(options), 4)
    assert words[:2] == ["-m", "espnet2.bin.asr_train"]
    assert value(words, "--ngpu") == "4"
    # ESPnet then starts a process for each GPU by itself
    assert value(words, "--multiprocessing_distributed") == "true"


@pytest.mark.skipif(commands.GENERATION < 202611, reason="ESPnet has no such option")
def test_the_window_of_ctc_is_as_configured_and_else_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("decode.yaml").write_text("ctc_window_margin: 7\n")

    def said(**more):
        options = Options(**SETS, **more)
        return commands.inference(options, layout(options), Path("a"), Path("b"))

    assert value(said(), "--ctc_window_margin") == "0"
    assert "--ctc_window_margin" not in said(inference_config="decode.yaml")
    words = said(inference_args="--ctc_window_margin 7")
    assert words.count("--ctc_window_margin") == 1


def test_a_folder_that_the_launcher_cannot_enter_is_named(tmp_path, monkeypatch):
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path / "a b")
    options = Options(**SETS, host="one")
    with pytest.raises(RecipeError, match="a b/exp: take a path without blanks"):
        commands.launched(options, Path("exp/x"), 1, [])


def test_a_training_is_what_asr_sh_makes_of_the_options():
    given = Options(
        **SETS, token_type="char", fs="8k", pretrained_model="m.pth:a:a", **SHORT
    )
    names = layout(given)
    words = commands.training(given, names, 0)
    parsed = ASRTask.get_parser().parse_args(words[2:])
    assert parsed.resume and parsed.output_dir == "exp/asr_x" and parsed.ngpu == 0
    # as asr.sh counts samples
    assert parsed.fold_length == [70_000, 90]
    assert parsed.train_data_path_and_name_and_type == [
        ("dump/raw/a/wav.scp", "speech", "sound"),
        ("dump/raw/a/text", "text", "text"),
    ]
    assert parsed.valid_data_path_and_name_and_type[0][0] == "dump/raw/b/wav.scp"
    stats = names.stats
    assert parsed.valid_shape_file == [
        f"{stats}/valid/speech_shape",
        f"{stats}/valid/text_shape.char",
    ]
    # `frontend: fused` of ESPnet takes a number only
    assert parsed.frontend_conf == {"fs": 8000}
    assert (parsed.init_param, parsed.ignore_init_mismatch) == (["m.pth:a:a"], True)
    assert parsed.normalize_conf == {"stats_file": f"{stats}/train/feats_stats.npz"}


@pytest.mark.parametrize(
    ("line", "found"),
    [("normalize: null", None), ("encoder: srupp", "utterance_mvn")],
)
def test_normalisation_is_the_yamls_where_it_is_not_global_as_in_asr_sh(
    tmp_path, line, found
):
    config = tmp_path / "train.yaml"
    config.write_text(f"{line}\n")
    given = Options(**SETS, asr_config=str(config), feats_normalize="utterance_mvn")
    words = commands.training(given, layout(given), 0)
    assert ASRTask.get_parser().parse_args(words[2:]).normalize == found
    given = replace(given, feats_normalize="global_mvn")
    words = commands.training(given, layout(given), 0)
    assert ASRTask.get_parser().parse_args(words[2:]).normalize == "global_mvn"


def test_other_shapes_are_allowed_in_a_model_that_the_yaml_begins_with_too():
    given = Options(**SETS, asr_args="--init_param m.pth", ignore_init_mismatch=True)
    words = commands.training(given, layout(given), 0)
    assert ASRTask.get_parser().parse_args(words[2:]).ignore_init_mismatch


def test_the_language_model_that_is_named_is_measured_and_decoded_with():
    given = Options(**SETS, use_lm=True, lm_tag="y", inference_lm="3epoch.pth")
    given = replace(given, inference_asr_model="5epoch.pth")
    names = layout(given)
    decoding = commands.inference(given, names, Path("a.scp"), Path("out"))
    measuring = commands.perplexity(given, names, 0, Path("out"))
    for words, model, config in (
        (decoding, "--asr_model_file", "--asr_train_config"),
        (decoding, "--lm_file", "--lm_train_config"),
        (measuring, "--model_file", "--train_config"),
    ):
        exp = "exp/asr_x" if model == "--asr_model_file" else "exp/lm_y"
        epoch = 5 if model == "--asr_model_file" else 3
        assert value(words, model) == f"{exp}/{epoch}epoch.pth"
        assert value(words, config) == f"{exp}/config.yaml"


def test_a_language_model_is_trained_as_asr_sh_does():
    given = Options(**SETS, lm_tag="y", token_type="char", lm_fold_length=60)
    given = replace(given, lm_args="--max_epoch 3", asr_args="--max_epoch 5")
    names = layout(given)
    words = commands.lm_training(given, names, 0)
    parsed = LMTask.get_parser().parse_args(words[2:])
    assert (parsed.output_dir, parsed.ngpu, parsed.max_epoch) == ("exp/lm_y", 0, 3)
    assert (parsed.fold_length, parsed.bpemodel) == ([60], None)
    train, valid = "dump/raw/lm_train.txt", "dump/raw/org/b/text"
    assert parsed.train_data_path_and_name_and_type == [(train, "text", "text")]
    assert parsed.valid_data_path_and_name_and_type == [(valid, "text", "text")]
    assert parsed.train_shape_file == [f"{names.lm_stats}/train/text_shape.char"]
    assert parsed.valid_shape_file == [f"{names.lm_stats}/valid/text_shape.char"]
    # on what it was not validated on
    words = commands.perplexity(given, names, 0, Path("out"))
    assert value(words, "--data_path_and_name_and_type") == "dump/raw/c/text,text,text"


def test_decoding_takes_no_more_than_is_asked_for_and_the_users_words_last():
    def said(**more):
        given = Options(**SETS, lm_tag="y", **more)
        return commands.inference(given, layout(given), Path("a.scp"), Path("out"))

    assert "--lm_file" not in said() and value(said(), "--ngpu") == "0"
    assert value(said(gpu_inference=True), "--ngpu") == "1"
    words = said(use_lm=True, inference_args="--lm_file mine.pth")
    assert value(words, "--lm_file") == "mine.pth"


def test_without_tensorboard_trainings_do_without_unless_the_user_asks(monkeypatch):
    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    for write, option in (
        (commands.training, "asr_args"),
        (commands.lm_training, "lm_args"),
    ):
        for given, found in (({}, "false"), ({option: "--use_tensorboard 1"}, "1")):
            options = Options(**SETS, **given)
            words = write(options, layout(options), 0)
            assert value(words, "--use_tensorboard") == found
