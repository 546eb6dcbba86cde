"""RESULTS.md has ESPnet's form and says how the numbers came about."""

import json
import subprocess

import pytest

import espnet_srupp
from espnet_srupp.compat import ESPNET_VERSION
from espnet_srupp.recipe import results, stage
from espnet_srupp.recipe.scoring import score

LINE = "INFO: {0}epoch results: [train] loss=5.0, time={1} seconds, [valid] loss=4.0\n"
SCLITE = """
     | SPKR             | # Snt  # Wrd | Corr    Sub    Del    Ins    Err  S.Err |
     | Sum/Avg          |   130    773 | 92.8    5.4    1.8    0.4    7.6   30.0 |
     | Mean             | 13.0    77.3 | 92.9    5.3    1.8    0.4    7.5   30.1 |
"""


@pytest.fixture
def exp(tmp_path):
    """An experiment with two decoded sets, one of them scored by sclite."""
    exp = tmp_path / "asr_x"
    (tmp_path / "ref").write_text("a ONE TWO\n")
    (tmp_path / "hyp").write_text("a ONE SIX\n")
    texts = (tmp_path / "ref", tmp_path / "hyp")
    score(*texts, exp / "beam10" / "test" / "score_wer", {"a": "s"}, str.split)
    sclite = exp / "beam10" / "org" / "dev" / "score_wer" / "result.txt"
    sclite.parent.mkdir(parents=True)
    sclite.write_text(SCLITE)
    (exp / "train.log").write_text(LINE.format(1, 10) + LINE.format(2, 30))
    (exp / "probe").mkdir()
    sizes = {"encoder": 2_600_000, "model": 3_450_000}
    (exp / "probe" / "model.json").write_text(json.dumps(sizes))
    stage.write(exp / ".training", {"machine": "2 cores of X"})
    (exp / "beam10" / "test" / "rtf").write_text("0.123\n")
    return exp


def test_rows_are_those_of_show_asr_result(exp):
    assert results.block(exp, "wer").splitlines() == [
        "### WER",
        "",
        "|dataset|Snt|Wrd|Corr|Sub|Del|Ins|Err|S.Err|",
        "|---|---|---|---|---|---|---|---|---|",
        "|beam10/org/dev|130|773|92.8|5.4|1.8|0.4|7.6|30.0|",
        "|beam10/test|1|2|50.0|50.0|0.0|0.0|50.0|100.0|",
    ]


def test_file_names_versions_model_and_training(exp):
    results.write(exp)
    text = (exp / "RESULTS.md").read_text()
    for said in (
        f"- espnet version: `espnet {ESPNET_VERSION}`",
        f"`espnet_srupp {espnet_srupp.__version__}`",
        "- pytorch version: `pytorch ",
        "- Git hash: `",
        f"## {exp.name}",
        "- parameters: encoder 2.60 M, model 3.45 M",
        "- training: 2 epochs of 20.0 s, 40 s together, 2 cores of X",
        "- real-time factor of beam10/test: 0.123",
        "### WER",
    ):
        assert said in text
    assert "### CER" not in text


@pytest.fixture
def decoded(exp):
    """A decoded set with the records of stages 12 and 13."""
    decoded = exp / "beam10" / "test"
    record_of(exp, decoded, exp / "ref")
    return decoded


def record_of(exp, decoded, reference):
    model, audio, config = (
        exp / name for name in ("valid.acc.ave.pth", "hash", "config.yaml")
    )
    reference.parent.mkdir(parents=True, exist_ok=True)
    for path in (model, audio, reference, decoded / "text"):
        path.write_text(str(path))
    config.write_text("encoder: srupp\n")
    for output, inputs in {
        "text": [audio, model, config],
        "score_wer": [reference, decoded / "text"],
    }.items():
        digests = {str(path): stage.digest(path) for path in inputs}
        record = {"options": {}, "inputs": digests}
        stage.write(stage.marker(decoded / output), record)


def test_a_reference_in_a_folder_of_the_same_name_is_told_from_results(exp, tmp_path):
    # as dump/raw/org/dev/text and exp/asr_x/beam10/org/dev/text
    record_of(exp, exp / "beam10" / "org" / "dev", tmp_path / "raw/org/dev/text")
    (tmp_path / "raw/org/dev/text").write_text("dev and more text")
    assert "beam10/org/dev" not in results.block(exp, "wer")
    record_of(exp, exp / "beam10" / "org" / "dev", tmp_path / "raw/org/dev/text")
    assert "beam10/org/dev" in results.block(exp, "wer")


@pytest.mark.parametrize("name", ["valid.acc.ave.pth", "hash", "ref"])
def test_results_of_another_model_audio_or_reference_are_left_out(exp, decoded, name):
    results.write(exp)
    assert "beam10/test" in (exp / "RESULTS.md").read_text()
    (exp / name).write_text("another")
    results.write(exp)
    text = (exp / "RESULTS.md").read_text()
    # neither its errors nor its real-time factor
    assert "beam10/test" not in text and "beam10/org/dev" in text


@pytest.mark.parametrize("name", ["valid.acc.ave.pth", "hash", "ref"])
def test_results_are_kept_where_the_data_or_the_model_are_gone(exp, decoded, name):
    (exp / name).unlink()
    assert "beam10/test" in results.block(exp, "wer")


def test_a_renamed_experiment_keeps_its_own_results(exp, decoded):
    exp = exp.rename(exp.with_name("asr_y"))
    assert "beam10/test" in results.block(exp, "wer")
    (exp / "valid.acc.ave.pth").write_text("trained on")
    assert "beam10/test" not in results.block(exp, "wer")


@pytest.mark.parametrize("text", [None, "another"], ids=["gone", "another"])
def test_scores_of_a_text_that_is_not_there_are_left_out(exp, decoded, text):
    (decoded / "text").unlink()
    if text:
        (decoded / "text").write_text(text)
    assert "beam10/test" not in results.block(exp, "wer")


def test_what_a_killed_scoring_leaves_is_left_out(exp, decoded):
    stage.marker(decoded / "score_wer").unlink()
    assert "beam10/test" not in results.block(exp, "wer")


def test_experiment_of_asr_sh_needs_neither_probe_nor_record(exp):
    (exp / "probe" / "model.json").unlink()
    (exp / ".training").unlink()
    results.write(exp)
    assert "machine unknown" in (exp / "RESULTS.md").read_text()


def test_what_a_training_began_with_is_told(exp):
    (exp / "config.yaml").write_text("init_param: [exp/first/valid.acc.ave.pth]\n")
    said = "- parameters to begin with: exp/first/valid.acc.ave.pth"
    assert said in results.facts(exp)


def test_a_package_outside_of_git_says_so_and_not_what_is_around_it(
    tmp_path, monkeypatch
):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    installed = tmp_path / "lib" / "espnet_srupp" / "__init__.py"
    monkeypatch.setattr(espnet_srupp, "__file__", str(installed))
    assert results.git("rev-parse", "HEAD") == "not in a git checkout"


def test_a_commit_that_git_cannot_tell_is_no_error(tmp_path, monkeypatch):
    # of a repository that is none
    (tmp_path / ".git").mkdir()
    installed = tmp_path / "espnet_srupp" / "__init__.py"
    monkeypatch.setattr(espnet_srupp, "__file__", str(installed))
    assert results.git("rev-parse", "HEAD").startswith("not known (fatal: not a git")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert results.git("rev-parse", "HEAD") == "git is not installed"


def test_results_with_a_language_model_are_kept_where_the_experiment_is_renamed(
    exp, decoded
):
    other = exp.with_name("lm")
    other.mkdir()
    (other / "config.yaml").write_text("lm: transformer\n")
    marker = stage.marker(decoded / "text")
    record = stage.read(marker)
    content = stage.digest(other / "config.yaml")
    record["inputs"][str(other / "config.yaml")] = content
    stage.write(marker, record)
    assert "beam10/test" in results.block(exp, "wer")
    exp = exp.rename(exp.with_name("asr_y"))
    assert "beam10/test" in results.block(exp, "wer")
