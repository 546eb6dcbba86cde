"""What stage 15 gives the programs of espnet_srupp.longform, and makes of their end."""

from pathlib import Path

import pytest
from espnet2.tasks.asr import encoder_choices

from espnet_srupp.recipe import longform
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options

SETS = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
FOLDERS = Path("exp/own"), None, Path("2x")


@pytest.fixture
def calls(monkeypatch):
    """The words of each program that would have run."""
    found = []
    monkeypatch.setattr(longform, "run", lambda words, *_: found.append(words))
    return found


@pytest.fixture
def broken(monkeypatch):
    """Has each program end before it has written anything."""

    def end(*_):
        raise RecipeError("it is broken")

    monkeypatch.setattr(longform, "run", end)


@pytest.mark.parametrize("gpu", [True, False])
def test_a_model_transcribes_as_it_decodes(tmp_path, calls, gpu):
    given = Options(inference_asr_model="10epoch.pth", gpu_inference=gpu, force=gpu)
    longform.transcribe(given, *FOLDERS, tmp_path / "out")
    (words,) = calls
    assert words[words.index("--checkpoint") + 1] == "10epoch.pth"
    assert words[words.index("--device") + 1] == ("cuda" if gpu else "cpu")
    assert ("--force" in words) == gpu


@pytest.mark.parametrize("case", [True, False])
def test_upper_and_lower_case_differ_where_they_do_in_stage_13(tmp_path, calls, case):
    given = Options(score_opts="-s" if case else "")
    longform.score(given, {Path("2x"): {"a": Path("2x/a")}}, tmp_path)
    (words,) = calls
    assert ("--case" in words) == case
    assert words[-2:] == ["2x", "a=2x/a"]


@pytest.mark.usefixtures("broken")
def test_a_failure_does_not_pass_for_what_was_made_before(tmp_path):
    for name in (*longform.RESULTS, *longform.SCORES):
        (tmp_path / name).touch()
    with pytest.raises(RecipeError, match="it is broken"):
        longform.transcribe(Options(), *FOLDERS, tmp_path)
    with pytest.raises(RecipeError, match="it is broken"):
        longform.score(Options(), {}, tmp_path)


@pytest.fixture
def own(tmp_path):
    """The folder of a training whose YAML has no encoder."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/config.yaml").write_text("optim: adam\n")
    return tmp_path / "own"


def test_a_model_that_the_user_names_by_a_link_is_not_there_twice(own):
    own.with_name("link").symlink_to(own)
    given = Options(**SETS, asr_exp=str(own), longform_models=f"a={own.parent}/link")
    assert list(longform.models(given, layout(given))) == ["a"]


def test_a_model_without_an_encoder_is_called_as_that_of_espnet(own):
    given = Options(**SETS, asr_exp=str(own))
    assert longform.models(given, layout(given)) == {encoder_choices.default: own}
