"""Stage 1 replaces what it has made, and nothing else."""

from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest
import soundfile

from espnet_srupp.recipe import asr, datadir
from espnet_srupp.recipe.corpora import mini, sets
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.stamp import STAMP

GIVEN = ["--corpus", "mini", "--train_set", "train", "--valid_set", "dev"]
GIVEN += ["--test_sets", "test", "--stop_stage", "1"]


def one(text):
    return DataDir({"a": "a.wav"}, {"a": text}, {"a": "speaker"})


def write_mine(data, path):
    """Writes a set as the user does, without a mark."""
    datadir.write(data, path)
    (path / STAMP).unlink()


def text(path):
    return datadir.read(path).text["a"]


@pytest.fixture
def data(tmp_path):
    sets.write({"train": one("ONE"), "dev": one("ONE")}, tmp_path)
    return tmp_path


def test_a_set_of_stage_1_is_replaced(data):
    sets.write({"train": one("TWO")}, data)
    assert (text(data / "train"), text(data / "dev")) == ("TWO", "ONE")


def test_a_set_of_stage_1_that_cannot_be_made_any_more_goes(data):
    sets.write({"train": None, "dev": one("TWO")}, data)
    assert not (data / "train").exists() and (data / "dev").exists()


@pytest.mark.parametrize("made", [one("TWO"), None], ids=["made", "not made"])
def test_a_set_of_the_user_stays(made, data):
    write_mine(one("MINE"), data / "test")
    try:
        sets.write({"test": made}, data)
    except RecipeError as error:
        assert made and "is not of stage 1: begin with --stage 2" in str(error)
    else:
        assert made is None
    assert text(data / "test") == "MINE"


@pytest.mark.parametrize("name", ["train_sp", "train_sp_join2"])
def test_a_set_of_the_user_that_is_called_as_one_of_stage_2_stays(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", np.random.default_rng(0).uniform(-0.5, 0.5, 16000), 16000)
    ids = ("a", "b")
    mine = DataDir(*(dict.fromkeys(ids, value) for value in ("a.wav", "MINE", "s")))
    for each in ("train", name):
        write_mine(mine, Path("data", each))
    given = [*GIVEN, "--stage", "2", "--stop_stage", "2", "--nj", "1"]
    given += ["--speed_perturb_factors", "0.9", "--train_joined", "2"]
    given += ["--longform_join_args", "--group '()'"]
    assert asr.main(given) == 1
    assert f"data/{name} is there and is not of stage 2" in capsys.readouterr().err
    assert text(Path("data", name)) == "MINE"
    rmtree(Path("data", name))
    # what stage 2 has made it may make again
    assert asr.main(given) == 0
    assert asr.main([*given, "--force", "true"]) == 0
    joined = datadir.read(Path("data/train_sp_join2"))
    assert len(joined.text) == 3


def test_a_set_of_the_user_is_seen_before_the_corpus_is_made(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mini, "prepare", lambda *_: pytest.fail("it was made"))
    write_mine(one("MINE"), Path("data/test"))
    assert asr.main(GIVEN) == 1
    assert "error: data/test is there and is not of stage 1" in capsys.readouterr().err
    assert text(Path("data/test")) == "MINE"


def test_a_stage_1_that_was_killed_between_two_sets_goes_on(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)

    def prepare(data, downloads, archive):
        sets.write({"train": one("ONE")}, data)
        if len(calls) == 1:
            raise KeyboardInterrupt
        sets.write({"dev": one("ONE"), "test": one("ONE")}, data)

    calls = []
    monkeypatch.setattr(mini, "prepare", lambda *a: calls.append(0) or prepare(*a))
    assert asr.main(GIVEN) == 130
    assert asr.main(GIVEN) == 0
