"""Mistakes in options, files and data are told in one sentence, and spoil nothing."""

import re
import shutil

import numpy as np
import pytest
import soundfile
from data.tones import make_recipe, mistake, run


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A recipe whose data are prepared, with no model yet."""
    recipe = make_recipe(tmp_path_factory.mktemp("root"))
    run(recipe, "--stop_stage", "5")
    return recipe


@pytest.fixture
def told(monkeypatch, capfd):
    return lambda recipe, *words: mistake(recipe, monkeypatch, capfd, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--nbp", "3"], "did you mean --nbpe", id="option"),
        pytest.param(["--feats_type", "raw"], "feats_type: --help", id="asr.sh"),
        pytest.param(["--stage", "6", "--stop_stage", "8"], "language model", id="LM"),
        pytest.param(["--stage", "16"], "1 to 15", id="stage"),
        pytest.param(["--stage", "1", "--corpus", "no"], "--corpus no", id="corpus"),
        pytest.param(["--asr_config", "no.yaml"], "no.yaml", id="config"),
        pytest.param(["--train_set", "no"], "data/no", id="set"),
        pytest.param(["--ngpu", "9", "--asr_tag", "g"], "--ngpu 9", id="GPU"),
        pytest.param(
            ["--stage", "12", "--inference_asr_model", "no.pth"], "no.pth", id="model"
        ),
        pytest.param(
            ["--stage", "10", "--dumpdir", "no"], "stage 10 .* needs no/raw", id="dump"
        ),
        pytest.param(["--stage", "13", "--asr_tag", "no"], "exp/asr_no", id="results"),
        pytest.param(
            ["--stage", "10", "--asr_args", "--max_ep 1", "--asr_stats_dir", "exp/x"],
            "there is no option --max_ep,",
            id="option cut short",
            marks=pytest.mark.once,
        ),
    ],
)
def test_mistake_is_one_sentence(prepared, told, words, said):
    assert re.search(said, told(prepared, *words))


@pytest.mark.parametrize(
    ("key", "said"),
    [
        pytest.param("encoder_conf: {hiden_size: 8}", "'hiden_size'", id="of encoder"),
        pytest.param("max_epochs: 8", "max_epochs", id="of ESPnet"),
        pytest.param("a: [1", "line 3", id="YAML"),
    ],
)
def test_wrong_yaml_is_named(prepared, told, key, said):
    (prepared / "conf" / "wrong.yaml").write_text(f"encoder: srupp\n{key}\n")
    words = ["--asr_config", "conf/wrong.yaml", "--stage", "10", "--stop_stage", "10"]
    message = told(prepared, *words, "--asr_stats_dir", "exp/wrong")
    assert said in message
    assert not (prepared / "exp/wrong/train/feats_stats.npz").exists()


def damage_audio(recipe):
    path = recipe / "wav" / "dev-01.flac"
    path.write_bytes(path.read_bytes()[:500])
    return "dev-01"


def remove_audio(recipe):
    (recipe / "wav" / "test-02.flac").unlink()
    return "test-02"


def change_rate(recipe):
    soundfile.write(recipe / "wav" / "dev-03.flac", np.zeros(8000), 16000)
    return "16000"


def empty_transcript(recipe):
    text = recipe / "data" / "test" / "text"
    text.write_text(text.read_text().replace("test-01 ", "test-01\nx "))
    return "test-01 has an empty transcript"


def double_id(recipe):
    for name in ("wav.scp", "text", "utt2spk"):
        path = recipe / "data" / "dev" / name
        path.write_text(path.read_text().replace("dev-02", "dev-01"))
    return "dev-01 is there twice"


def remove_token(recipe):
    tokens = recipe / "data" / "token_list" / "bpe_unigram15" / "tokens.txt"
    first, second, third, *rest = tokens.read_text().splitlines(keepends=True)
    tokens.write_text("".join([first, second, *rest]))
    return third.strip()


def tree(folder):
    """All files but the records of finished steps, and the locks."""
    own = (".made", ".locks")
    return sorted(p for p in folder.rglob("*") if not str(p).endswith(own))


@pytest.mark.parametrize(
    ("damage", "stage"),
    [
        (damage_audio, "3"),
        (remove_audio, "3"),
        (change_rate, "3"),
        (empty_transcript, "3"),
        (double_id, "3"),
        (remove_token, "10"),
    ],
)
def test_damage_is_named_and_leaves_nothing_behind(
    prepared, told, tmp_path, damage, stage
):
    copy = tmp_path / "asr1"
    shutil.copytree(prepared, copy, ignore=shutil.ignore_patterns("exp"))
    before = tree(copy / "dump")
    culprit = damage(copy)
    assert culprit in told(copy, "--stage", stage, "--stop_stage", stage)
    assert tree(copy / "dump") == before
