"""run.sh from end to end on spoken tones: stages, repetition, interrupts."""

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import soundfile
from data.tones import OPTIONS, RATE, SETS, environment, make_recipe, mistake, run
from processes import unchecked

from espnet_srupp.recipe import asr, datadir, pictures


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return make_recipe(tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="module")
def finished(recipe):
    """All stages done; the folder and what was printed."""
    return recipe, run(recipe, "--skip_packing", "false", checked=True)


EXP = "exp/asr_train_raw_bpe15_sp"
RESULTS = f"{EXP}/inference_beam_size2_maxlenratio-6_asr_model_valid.acc.ave"


@pytest.mark.parametrize(
    "path",
    [
        "data/train_sp/wav.scp",
        "dump/raw/org/train_sp/utt2num_samples",
        "dump/raw/train_sp/text",
        "dump/raw/test/feats_type",
        "data/token_list/bpe_unigram15/tokens.txt",
        # its features are not the common ones
        "exp/asr_stats_raw_bpe15_sp_????????/train/feats_stats.npz",
        "exp/asr_stats_raw_bpe15_sp_????????/valid/text_shape.bpe",
        f"{EXP}/config.yaml",
        f"{EXP}/train.log",
        f"{EXP}/valid.acc.ave.pth",
        f"{EXP}/images/training_curves.png",
        f"{EXP}/images/attention.png",
        f"{EXP}/images/loss.png",
        f"{EXP}/RESULTS.md",
        f"{EXP}/asr_train_raw_bpe15_sp_valid.acc.ave.zip",
        *(f"{RESULTS}/test/{name}" for name in ("text", "token", "token_int", "score")),
        *(f"{RESULTS}/test/score_{kind}/result.txt" for kind in ("wer", "cer", "ter")),
    ],
)
def test_everything_is_where_asr_sh_puts_it(finished, path):
    recipe, _ = finished
    (found,) = recipe.glob(path)
    assert found.stat().st_size > 0


def test_progress_and_table_are_printed(finished):
    _, printed = finished
    assert re.search(r"epoch 1/1: train loss [\d.]+, valid loss [\d.]+, acc", printed)
    assert "decoding test: 4/4 utterances" in printed
    assert "training_curves.png, attention.png, alpha.png\n" in printed
    assert re.search(r"\|inference_.*/test\|4\|11\|", printed)
    # nothing of ESPnet's own talk
    assert "INFO" not in printed and "nltk" not in printed


def test_every_test_utterance_is_decoded_once(finished):
    recipe, _ = finished
    lines = (recipe / RESULTS / "test" / "text").read_text().splitlines()
    assert [line.split()[0] for line in lines] == [f"test-{n:02}" for n in range(4)]


def test_nothing_is_done_twice(finished):
    recipe, _ = finished
    before = {p: p.stat().st_mtime_ns for p in recipe.rglob("*") if p.is_file()}
    printed = run(recipe, "--skip_packing", "false")
    steps = [line for line in printed.splitlines() if "] stage" in line]
    assert len(steps) == 14
    assert all(line.endswith("done before") for line in steps)
    assert before == {p: p.stat().st_mtime_ns for p in recipe.rglob("*") if p.is_file()}
    assert "|test|" in printed or "/test|" in printed


def test_packed_model_gives_the_same_text_by_the_code_of_its_card(finished, tmp_path):
    recipe, _ = finished
    archive = recipe / EXP / f"{Path(EXP).name}_valid.acc.ave.zip"
    shutil.copy(archive, tmp_path)
    with zipfile.ZipFile(archive) as file:
        card = file.read("README.md").decode()
    shutil.copy(recipe / "wav" / "test-01.flac", tmp_path)
    load, use = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    use = use.replace("speech.wav", "test-01.flac")
    (tmp_path / "use.py").write_text(f"{load}{use}print('TEXT', text)")
    done = subprocess.run(
        [sys.executable, "use.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=unchecked(),
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()[-1].removeprefix("TEXT")
    texts = (recipe / RESULTS / "test" / "text").read_text().splitlines()
    assert f"test-01{found}" in texts


LM_EXP = "exp/lm_train_lm_bpe15"


def test_language_model_is_trained_measured_and_decoded_with(finished):
    recipe, _ = finished
    words = ["--use_lm", "true", "--stage", "6", "--stop_stage", "13"]
    words += ["--inference_nj", "1"]
    printed = run(recipe, *words)
    assert re.search(r"epoch 2/2: train loss [\d.]+, valid loss [\d.]+", printed)
    found = re.search(r"perplexity of dump/raw/test/text: ([\d.]+) for each", printed)
    # 15 tokens, all of which it knows to be possible
    assert 1 < float(found[1]) < 30
    saved = float((recipe / LM_EXP / "perplexity_test" / "ppl").read_text())
    assert saved == pytest.approx(float(found[1]), abs=0.006)
    lines = (recipe / "dump/raw/lm_train.txt").read_text().splitlines()
    assert len(lines) == SETS["train"]
    # both stand in one table
    name = Path(RESULTS).name.replace(
        "_asr", f"_lm_{Path(LM_EXP).name}_valid.loss.ave_asr", 1
    )
    rows = re.findall(r"^\|(\S+)/test\|4\|11\|", printed, re.MULTILINE)
    assert rows == [Path(RESULTS).name, name]
    steps = [line for line in run(recipe, *words).splitlines() if "] stage" in line]
    assert all(line.endswith("done before") for line in steps)


@pytest.mark.once
def test_long_recordings_are_transcribed_scored_and_drawn(finished):
    recipe, _ = finished
    words = ["--longform", "1 2", "--longform_join_args", "--group '()'"]
    printed = run(recipe, "--stage", "15", *words)
    assert re.search(r"\| 2x \| [\d.]+ \| 2 \| 2 \| 11 \| srupp \|", printed)
    results = recipe / EXP / "longform" / "test"
    assert (results / "wer_by_length.png").stat().st_size > 0
    lines = (results / "2x" / "srupp" / "text").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["all-long0001", "all-long0002"]


def test_a_refused_training_is_still_finished(finished, monkeypatch, capfd):
    recipe, _ = finished
    eleven = ["--stage", "11", "--stop_stage", "11"]
    for value, said in (("0", "1 epochs, more than max_epoch 0"), ("ten", "max_epoch")):
        arguments = f"--max_epoch {value}"
        # in the same folder
        words = [*eleven, "--asr_exp", EXP, "--asr_args", arguments]
        assert said in mistake(recipe, monkeypatch, capfd, *words)
    assert asr.main([*OPTIONS, *eleven]) == 0
    assert "done before" in capfd.readouterr().out


def test_a_probe_that_is_gone_is_made_again(finished, monkeypatch, capsys):
    recipe, _ = finished
    monkeypatch.chdir(recipe)
    path = Path(EXP, "probe", "model.json")
    sizes = path.read_text()
    path.unlink()
    monkeypatch.setattr(pictures, "draw", lambda *_: path.write_text(sizes))
    assert asr.main([*OPTIONS, "--stage", "13"]) == 0
    assert f"again, as {path} is gone" in capsys.readouterr().out


def test_joined_utterances_are_trained_on_as_well(finished):
    recipe, _ = finished
    tokens = recipe / "data/token_list/bpe_unigram15/tokens.txt"
    before = tokens.read_bytes()
    words = ["--train_joined", "2", "--longform_join_args", "--group '()'"]
    run(recipe, "--stop_stage", "5", *words)
    made = datadir.read(recipe / "dump/raw/train_sp_join2")
    single = datadir.read(recipe / "dump/raw/train_sp")
    joined = {u: t for u, t in made.text.items() if u not in single.text}
    assert made.text.items() >= single.text.items()
    assert len(joined) == SETS["train"] // 2
    order = sorted(u for u in single.text if not u.startswith("sp"))
    assert joined["all-long0001"] == " ".join(single.text[u] for u in order[:2])
    # other models go on with the same tokens
    assert tokens.read_bytes() == before


def test_changed_option_repeats_its_stage(finished, monkeypatch, capsys):
    recipe, _ = finished
    monkeypatch.chdir(recipe)
    options = [*OPTIONS, "--stage", "4", "--stop_stage", "4"]
    assert asr.main([*options, "--max_wav_duration", "1.7"]) == 0
    printed = capsys.readouterr().out
    assert "again, as max_wav_duration was 20.0, is 1.7" in printed
    assert "4 left out for their length" in printed
    assert asr.main(options) == 0
    assert "again, as max_wav_duration was 1.7, is 20.0" in capsys.readouterr().out


@pytest.mark.once
def test_replaced_audio_of_the_same_length_is_seen(finished):
    recipe, _ = finished
    copy = recipe.with_name("replaced")
    shutil.copytree(recipe, copy, symlinks=True)
    for name, seen_by in (("test-00", (12,)), ("train-00", (4, 10, 11))):
        path = copy / "wav" / f"{name}.flac"
        samples, _ = soundfile.read(path)
        soundfile.write(path, samples[::-1], RATE)
        printed = run(copy, "--stop_stage", str(seen_by[-1]), "--inference_nj", "1")
        again = r"\] stage (\d+): .*again, as .*/utt2hash has changed"
        assert tuple(map(int, re.findall(again, printed))) == seen_by
        # as the text is the same
        assert re.search(r"stage 5: .*: done before", printed)


def test_a_set_that_was_for_validation_is_whole_again_as_a_test(
    finished, tmp_path, monkeypatch, capsys
):
    recipe, _ = finished
    copy = tmp_path / "asr1"
    shutil.copytree(recipe, copy, ignore=shutil.ignore_patterns("exp"))
    monkeypatch.chdir(copy)
    options = [*OPTIONS, "--stage", "3", "--stop_stage", "4"]
    short = ["--max_wav_duration", "1.3"]
    assert asr.main([*options, *short, "--valid_set", "test"]) == 0
    assert len(datadir.read(Path("dump/raw/test")).text) < SETS["test"]
    # and is none until then
    named = ["--asr_exp", str(recipe / EXP), "--longform", "2"]
    for number in ("12", "15"):
        decode = [*OPTIONS, *named, "--stage", number, "--stop_stage", number]
        assert asr.main(decode) == 1
        error = capsys.readouterr().err
        assert "dump/raw/test was made filtered by length, for training, by" in error
    assert asr.main(options) == 0
    assert len(datadir.read(Path("dump/raw/test")).text) == SETS["test"]


def test_a_training_set_is_decoded_whole_and_trained_on_filtered(
    finished, tmp_path, monkeypatch, capsys
):
    recipe, _ = finished
    copy = tmp_path / "asr1"
    shutil.copytree(recipe, copy, ignore=shutil.ignore_patterns("exp", "dump"))
    monkeypatch.chdir(copy)
    options = [*OPTIONS, "--speed_perturb_factors", "", "--stop_stage", "4"]
    options += ["--max_wav_duration", "1.3", "--test_sets", "train test"]
    assert asr.main(options) == 0
    assert len(datadir.read(Path("dump/raw/org/train")).text) == SETS["train"]
    assert len(datadir.read(Path("dump/raw/train")).text) < SETS["train"]
    # by itself it is whole where it is trained on at other speeds
    assert asr.main([*options, "--speed_perturb_factors", "0.9 1.0"]) == 0
    assert len(datadir.read(Path("dump/raw/train")).text) == SETS["train"]
    options[options.index("--stop_stage") + 1] = "10"
    assert asr.main([*options, "--stage", "10"]) == 1
    assert "dump/raw/train was made whole, for tests, by" in capsys.readouterr().err


def test_tokens_are_the_same_with_and_without_speeds(finished, monkeypatch, capsys):
    recipe, _ = finished
    monkeypatch.chdir(recipe)
    options = [*OPTIONS, "--stage", "5", "--stop_stage", "5"]
    assert asr.main([*options, "--speed_perturb_factors", ""]) == 0
    assert "done before" in capsys.readouterr().out


@pytest.fixture
def interruptible():
    """Lets children know SIGINT, which a suite in the background would ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.once
@pytest.mark.usefixtures("interruptible")
def test_interrupted_training_is_continued(finished):
    recipe, _ = finished
    words = ["--stage", "11", "--stop_stage", "11", "--asr_tag", "long", "--asr_args"]
    process = subprocess.Popen(
        [str(recipe / "run.sh"), *words, "--max_epoch 500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    for line in process.stdout:
        if "epoch 2/500" in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("interrupted")
    assert len(errors.splitlines()) == 1
    log = (recipe / "exp/asr_long/train.log").read_text()
    last = max(int(n) for n in re.findall(r"(\d+)epoch results", log))
    printed = run(recipe, *words, f"--max_epoch {last + 1}")
    assert "continuing from exp/asr_long/checkpoint.pth" in printed
    assert f"epoch {last + 1}/{last + 1}" in printed
    assert "epoch 1/" not in printed
    assert not (recipe / "exp/asr_long.1").exists()


@pytest.mark.once
def test_changed_model_starts_anew_and_keeps_the_old(finished):
    recipe, _ = finished
    shutil.copytree(recipe / EXP, recipe / "exp/asr_other", symlinks=True)
    words = ["--stage", "11", "--stop_stage", "11", "--asr_tag", "other", "--asr_args"]
    printed = run(recipe, *words, "--seed 2")
    assert "again, as seed was not set, is 2" in printed
    assert "kept as exp/asr_other.1" in printed
    assert (recipe / "exp/asr_other.1/valid.acc.ave.pth").exists()


@pytest.mark.once
def test_training_on_two_machines_is_one_training(finished, tmp_path, monkeypatch):
    """SSH leads to this machine here, whose processes then meet as two would."""
    recipe, _ = finished
    (tmp_path / "ssh").write_text('#!/usr/bin/env bash\nshift\nexec bash -c "$*"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = ["--stage", "11", "--stop_stage", "11", "--asr_tag", "two", "--ngpu", "0"]
    printed = run(recipe, *words, "--host", "one,two")
    assert "starting on one,two by SSH" in printed
    assert "epoch 1/1: train loss" in printed
    log = (recipe / "exp/asr_two/train.log").read_text()
    assert ":0/2]" in log and len(re.findall("1epoch results", log)) == 1
    assert (recipe / "exp/asr_two/valid.acc.ave.pth").exists()
