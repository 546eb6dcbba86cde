"""A packed model is what ESPnet unpacks."""

import zipfile

import pytest
import yaml
from espnet2.main_funcs.pack_funcs import unpack

from espnet_srupp.recipe import packing
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = Options(train_set="a", valid_set="b", test_sets="c", asr_tag="x")
    names = layout(given)
    for path, content in {
        names.exp / "config.yaml": yaml.safe_dump(
            {"encoder": "srupp", "bpemodel": str(names.bpemodel)}
        ),
        names.exp / "valid.acc.ave.pth": "model",
        names.exp / "RESULTS.md": "# RESULTS",
        names.exp / "images" / "attention.png": "png",
        names.stats / "train" / "feats_stats.npz": "npz",
        names.bpemodel: "bpe",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return given, names


def pack(given, names):
    target = packing.target(given, names)
    config, model = names.exp / "config.yaml", names.exp / "valid.acc.ave.pth"
    packing.pack_model(config, model, packing.extras(given, names), target)
    return target


def test_name_is_that_of_asr_sh(recipe):
    assert str(packing.target(*recipe)) == "exp/asr_x/asr_x_valid.acc.ave.zip"


def test_espnet_unpacks_it(recipe, tmp_path, capsys):
    found = unpack(pack(*recipe), tmp_path / "out")
    with open(found["asr_train_config"]) as file:
        config = yaml.safe_load(file)
    assert config["encoder"] == "srupp"
    with open(config["bpemodel"]) as file:
        assert file.read() == "bpe"
    with open(found["asr_model_file"]) as file:
        assert file.read() == "model"
    assert capsys.readouterr().out == ""


def test_results_and_pictures_go_in(recipe):
    names = {
        name.rpartition("/")[2] for name in zipfile.ZipFile(pack(*recipe)).namelist()
    }
    assert {"RESULTS.md", "attention.png", "feats_stats.npz", "bpe.model"} <= names


def test_failure_leaves_nothing(recipe):
    given, names = recipe
    (names.exp / "RESULTS.md").unlink()
    with pytest.raises(FileNotFoundError):
        pack(given, names)
    assert not list(names.exp.glob("*.zip")) and not list(names.exp.glob(".*"))
