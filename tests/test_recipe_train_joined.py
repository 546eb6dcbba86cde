"""Utterances are joined for training with what is bad left out, as stage 2 does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_srupp.recipe import datadir, longform, stage
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.options import Options

RATE = 1000


@pytest.fixture
def training(tmp_path, monkeypatch):
    """A set of 40 utterances of 1 s; one's audio is cut off, one has no transcript."""
    monkeypatch.chdir(tmp_path)
    ids = [f"fcaw-an{n}-b" for n in range(1, 41)]
    (tmp_path / "wav").mkdir()
    for name in ids:
        samples = np.arange(RATE, dtype="int16")
        soundfile.write(tmp_path / "wav" / f"{name}.wav", samples, RATE)
    damaged = tmp_path / "wav" / f"{ids[3]}.wav"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    wav = {name: f"wav/{name}.wav" for name in ids}
    data = DataDir(wav, dict.fromkeys(ids, "A"), dict.fromkeys(ids, "fcaw"))
    datadir.write(data, Path("data/train"))
    text = tmp_path / "data/train/text"
    text.write_text(text.read_text().replace(f"{ids[7]} A", f"{ids[7]} "))
    return ids


@pytest.mark.parametrize(
    ("number", "texts"),
    # what is left in the end is shorter
    [(2, 19 * ["A A"]), (3, [*(12 * ["A A A"]), "A A"])],
)
def test_bad_utterances_of_a_training_are_not_joined(training, capsys, number, texts):
    options = Options(train_set="train", valid_set="dev", nj=1)
    longform.join(options, Path("data/train"), number, strict=False)
    text = datadir.read(Path(f"data/train_long/{number}x")).text
    assert list(text.values()) == texts
    printed = capsys.readouterr().out
    assert "2 of 40 utterances of data/train are not joined (log: data/" in printed


@pytest.mark.parametrize(("number", "strict"), [(2, True), (15, False)])
def test_strict_stops_at_bad_utterances_and_a_test_set_always(training, number, strict):
    options = Options(train_set="train", valid_set="dev", nj=1, strict=strict)
    step = longform.joining(number, options, Path("data/train"), 2)
    with pytest.raises(RecipeError, match=r"wav/fcaw-an4-b.wav .* is truncated"):
        step.work()


def test_what_is_joined_is_kept_from_other_runs():
    step = longform.joining(2, Options(), Path("data/train"), 2)
    assert Path("data/train") in step.reads


def test_what_was_joined_with_less_is_joined_anew_as_strict(training):
    options = Options(train_set="train", valid_set="dev")
    before, after = (
        longform.joining(2, given, Path("data/train"), 2).record()
        for given in (options, replace(options, strict=True))
    )
    assert stage.difference(before, after) == "strict was not set, is True"
    assert not stage.difference(after, before)


def test_what_is_largely_bad_is_not_joined(training):
    for name in training[10:13]:
        Path("wav", f"{name}.wav").write_text("not audio")
    options = Options(train_set="train", valid_set="dev", nj=1)
    with pytest.raises(RecipeError, match="of 40 utterances .* more than a tenth"):
        longform.join(options, Path("data/train"), 2, strict=False)


def test_a_tenth_of_a_set_may_be_bad(training):
    for name in training[10:12]:
        Path("wav", f"{name}.wav").write_text("not audio")
    options = Options(train_set="train", valid_set="dev", nj=1)
    longform.join(options, Path("data/train"), 2, strict=False)
    assert len(datadir.read(Path("data/train_long/2x")).text) == 18


def test_what_a_kill_has_left_of_a_folder_is_replaced(training):
    left = Path("data/train_long/2x/text")
    left.parent.mkdir(parents=True)
    left.touch()
    options = Options(train_set="train", valid_set="dev", nj=1)
    longform.join(options, Path("data/train"), 2, strict=False)
    assert left.read_text()


def test_a_failure_does_not_pass_for_what_was_joined_before(training):
    before = Path("data/train_long/2x/provenance.csv")
    before.parent.mkdir(parents=True)
    before.write_text("recording,utterance\nlong0001,1\nlong0001,2\n")
    options = Options(
        train_set="train", valid_set="dev", nj=1, longform_join_args="--gap x"
    )
    with pytest.raises(RecipeError, match="--gap"):
        longform.join(options, Path("data/train"), 2, strict=False)
