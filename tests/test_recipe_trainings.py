"""Several configurations by --asr_config: each training begins with the one before."""

from pathlib import Path

import pytest
import torch
import yaml
from data.tones import CONFIG, make_recipe, mistake, run

from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout, trainings
from espnet_srupp.recipe.options import Options

pytestmark = pytest.mark.once

CONFIGS = "conf/train.yaml conf/again.yaml"
FIRST, SECOND = "exp/asr_train_raw_bpe15_sp", "exp/asr_again_raw_bpe15_sp"
MODEL = "valid.acc.ave.pth"
SETS = {"train_set": "train", "valid_set": "dev", "test_sets": "test"}


@pytest.fixture
def abc(tmp_path, monkeypatch):
    """Three configurations in this folder."""
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        Path(f"{name}.yaml").write_text("{}")


def chain(**options):
    """Experiment and model to begin with of each training."""
    found = trainings(Options(**SETS, **options))
    return [
        (str(layout(training).exp), training.pretrained_model) for training in found
    ]


def test_a_single_configuration_is_a_training_with_its_own_name(abc):
    one = ("exp/asr_a_raw_bpe30", "given.pth:encoder:encoder")
    assert chain(asr_config="a.yaml", pretrained_model=one[1]) == [one]
    assert chain() == [("exp/asr_train_raw_bpe30", "")]


def test_a_training_begins_with_the_model_that_the_one_before_has_chosen(abc):
    Path("a.yaml").write_text("best_model_criterion: [[valid, loss, min]]")
    model = "valid.loss.ave.pth"
    found = chain(asr_config="a.yaml b.yaml c.yaml", inference_asr_model=model)
    begins = [given for _, given in found]
    assert begins[1:] == [
        f"exp/asr_a_raw_bpe30/{model}",
        f"exp/asr_b_raw_bpe30/{MODEL}",
    ]


@pytest.mark.parametrize(
    ("options", "folders"),
    [
        ({}, ["exp/asr_a_raw_bpe30", "exp/asr_b_raw_bpe30", "exp/asr_c_raw_bpe30"]),
        ({"asr_tag": "x"}, ["exp/asr_x_a", "exp/asr_x_b", "exp/asr_x"]),
        ({"asr_exp": "y/z"}, ["y/z_a", "y/z_b", "y/z"]),
    ],
)
def test_each_training_begins_with_the_model_of_the_one_before(options, folders, abc):
    models = ["given.pth", *(f"{folder}/{MODEL}" for folder in folders[:-1])]
    found = chain(
        asr_config="a.yaml b.yaml c.yaml", pretrained_model=models[0], **options
    )
    assert found == [*zip(folders, models, strict=True)]


@pytest.mark.parametrize(
    "given", ["--model_conf ctc_weight=1.0", "--decoder transducer"]
)
def test_without_accuracy_a_training_begins_with_what_would_be_decoded(given, abc):
    loss = "valid.loss.ave.pth"
    given = {"asr_args": given, "asr_tag": "x", "inference_asr_model": loss}
    _, (_, model) = chain(asr_config="a.yaml b.yaml", **given)
    assert model == f"exp/asr_x_a/{loss}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"asr_config": "a.yaml x/a.yaml"}, "two of the trainings"),
        ({"asr_config": "a.yaml b.yaml", "asr_tag": "e:x"}, "has a colon"),
        ({"asr_config": "a.yaml x/a.yaml b.yaml", "asr_tag": "e"}, "two of the"),
        ({"asr_config": "a.yaml b.yaml", "asr_exp": "."}, "two of the"),
    ],
)
def test_folders_that_cannot_go_together_are_named_at_once(given, said, abc):
    Path("x").mkdir()
    Path("x/a.yaml").write_text("{}")
    with pytest.raises(RecipeError, match=said):
        chain(**given)


def test_a_slash_at_the_end_of_a_folder_does_not_matter(abc):
    found = chain(asr_config="a.yaml b.yaml", asr_exp="y/z/")
    assert [exp for exp, _ in found] == ["y/z_a", "y/z"]


def test_statistics_of_a_given_folder_are_the_last_training_s(abc):
    given = Options(**SETS, asr_config="a.yaml b.yaml", asr_stats_dir="mine")
    first, last = trainings(given)
    assert (first.asr_stats_dir, last.asr_stats_dir) == ("", "mine")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A recipe with two trainings, the second with other features, and what it said."""
    recipe = make_recipe(tmp_path_factory.mktemp("root"))
    again = yaml.safe_load(CONFIG) | {"optim_conf": {"lr": 0.0}}
    again["frontend_conf"]["hop_length"] = 100
    (recipe / "conf/again.yaml").write_text(yaml.safe_dump(again))
    return recipe, run(recipe, "--asr_config", CONFIGS, "--stop_stage", "13")


def weights(path):
    return torch.load(path, map_location="cpu", weights_only=False)


def test_the_second_training_begins_with_the_first_one_s_weights(trained):
    recipe, _ = trained
    first, second = (weights(recipe / exp / MODEL) for exp in (FIRST, SECOND))
    learned = [name for name in first if "encoder.encoders" in name]
    assert learned
    for name in learned:
        torch.testing.assert_close(second[name], first[name], rtol=0, atol=1e-6)


def test_each_training_has_statistics_of_its_own_features(trained):
    recipe, _ = trained
    files = [
        yaml.safe_load((recipe / e / "config.yaml").read_text())
        for e in (FIRST, SECOND)
    ]
    stats = {config["normalize_conf"]["stats_file"] for config in files}
    assert len(stats) == 2


def test_the_last_model_alone_is_decoded(trained):
    recipe, printed = trained
    assert "stage 12" in printed
    assert not [*(recipe / FIRST).glob("inference*")]
    assert [*(recipe / SECOND).glob("inference*/test/text")]


def test_results_name_the_model_that_the_training_began_with(trained):
    recipe, _ = trained
    results = (recipe / SECOND / "RESULTS.md").read_text()
    assert f"- parameters to begin with: {FIRST}/{MODEL}\n" in results


def test_what_is_trained_is_not_trained_again(trained):
    recipe, _ = trained
    printed = run(recipe, "--asr_config", CONFIGS, "--stop_stage", "11")
    for exp in (FIRST, SECOND):
        assert f"stage 11: training of {exp}: done before" in printed


def test_a_missing_one_of_several_is_named(trained, monkeypatch, capfd):
    recipe, _ = trained
    words = ["--asr_config", "conf/train.yaml conf/no.yaml"]
    assert "--asr_config conf/no.yaml: there is no such file" in mistake(
        recipe, monkeypatch, capfd, *words
    )
