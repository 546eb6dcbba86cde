"""A packed model is what ESPnet unpacks."""

import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from espnet2.main_funcs.pack_funcs import unpack

from espnet_srupp.recipe import packing
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.model_stages import pack_model
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.stage import difference


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = Options(train_set="a", valid_set="b", test_sets="c", asr_tag="x")
    names = layout(given)
    for path, content in {
        names.exp / "config.yaml": yaml.safe_dump(
            {
                "encoder": "srupp",
                "bpemodel": str(names.bpemodel),
                "normalize_conf": {
                    "stats_file": f"{names.stats}/train/feats_stats.npz"
                },
            }
        ),
        names.exp / "valid.acc.ave.pth": "model",
        names.exp / "RESULTS.md": "# RESULTS",
        names.exp / "images" / "attention.png": "png",
        names.exp / "images" / "training_curves.png": "png",
        names.stats / "train" / "feats_stats.npz": "npz",
        names.bpemodel: "bpe",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return given, names


def pack(given, names):
    target = packing.target(given, names)
    models, files = packing.models(given, names), packing.extras(given, names)
    packing.pack_model(models, files, "# card", target)
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


@pytest.mark.parametrize("trained", [os.path.abspath, os.path.relpath])
@pytest.mark.parametrize("expdir", ["exp", "../big/exp"])
def test_paths_of_this_machine_do_not_go_in(recipe, tmp_path, expdir, trained):
    given, names = recipe
    here = tmp_path / expdir
    here.parent.mkdir(exist_ok=True)
    names.stats.parent.rename(here)
    names = layout(replace(given, expdir=str(here.resolve())))
    stats = names.stats / "train" / "feats_stats.npz"
    config = {"normalize_conf": {"stats_file": trained(stats)}, "none": None}
    (names.exp / "config.yaml").write_text(yaml.safe_dump(config))
    target = pack(given, names).rename(tmp_path / "x.zip")
    shutil.rmtree(here)
    with zipfile.ZipFile(target) as archive:
        assert not any(name.startswith("/") for name in archive.namelist())
    found = unpack(target, tmp_path / "out")
    assert Path(found["asr_model_file"]).read_text() == "model"
    with open(found["asr_train_config"]) as file:
        unpacked = yaml.safe_load(file)
    assert unpacked["none"] is None
    assert Path(unpacked["normalize_conf"]["stats_file"]).read_text() == "npz"
    assert (tmp_path / "out").resolve() in Path(
        found["asr_model_file"]
    ).resolve().parents


def test_no_other_absolute_path_goes_in(recipe, tmp_path):
    given, names = recipe
    config = {
        "config": "/home/jane/mine.yaml",
        "output_dir": str(tmp_path / "exp" / "asr_x"),
        "train_shape_file": ["/data/exp/stats/speech_shape", "exp/text_shape"],
        "valid_data_path_and_name_and_type": [["/data/wav.scp", "speech", "sound"]],
        "dist_init_method": "file:///home/jane/exp/.dist_init",
        "token_list": ["<blank>", "/", "/A"],
    }
    (names.exp / "config.yaml").write_text(yaml.safe_dump(config))
    found = unpack(pack(given, names), tmp_path / "out")
    assert yaml.safe_load(Path(found["asr_train_config"]).read_text()) == {
        "config": "mine.yaml",
        "output_dir": "exp/asr_x",
        "train_shape_file": ["speech_shape", "exp/text_shape"],
        "valid_data_path_and_name_and_type": [["wav.scp", "speech", "sound"]],
        "dist_init_method": ".dist_init",
        "token_list": ["<blank>", "/", "/A"],
    }


def test_results_and_pictures_go_in(recipe):
    names = {
        name.rpartition("/")[2] for name in zipfile.ZipFile(pack(*recipe)).namelist()
    }
    assert {"RESULTS.md", "attention.png", "feats_stats.npz", "bpe.model"} <= names
    assert "training_curves.png" in names


def test_statistics_of_the_training_go_in_whatever_the_command_says(recipe, tmp_path):
    given, names = recipe
    other = layout(replace(given, asr_args="--frontend_conf hop_length=80"))
    assert other.stats != names.stats
    found = unpack(pack(given, other), tmp_path / "out")
    trained = yaml.safe_load(Path(found["asr_train_config"]).read_text())
    stats = Path(trained["normalize_conf"]["stats_file"])
    assert tmp_path / "out" in stats.parents and stats.read_text() == "npz"


def test_the_model_of_the_pieces_is_that_of_the_training(recipe, tmp_path):
    given, names = recipe
    other = replace(layout(replace(given, nbpe=14)), exp=names.exp)
    assert other.bpemodel != names.bpemodel
    found = unpack(pack(given, other), tmp_path / "out")
    trained = yaml.safe_load(Path(found["asr_train_config"]).read_text())
    assert tmp_path / "out" in Path(trained["bpemodel"]).parents
    assert Path(trained["bpemodel"]).read_text() == "bpe"


def test_card_lies_where_the_hub_looks_for_it(recipe, tmp_path):
    with zipfile.ZipFile(pack(*recipe)) as archive:
        assert archive.read("README.md") == b"# card"


def test_error_rates_of_another_decoding_make_another_card(recipe):
    given, names = recipe
    decoded = [replace(given, inference_tag=tag) for tag in ("a", "b")]
    made = [next(pack_model(each, layout(each))) for each in decoded]
    first, second = (step.record() for step in made)
    assert made[0].outputs == made[1].outputs
    assert difference(first, second) == "decoding was a, is b"


def test_language_model_goes_in_if_it_is_used(recipe, tmp_path):
    given, _ = recipe
    given = replace(given, use_lm=True)
    names = layout(given)
    for name, content in {
        "config.yaml": "lm: seq_rnn",
        "valid.loss.ave.pth": "language model",
        "perplexity_test/ppl": "2.5",
    }.items():
        path = names.lm_exp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    found = unpack(pack(given, names), tmp_path / "out")
    assert Path(found["lm_file"]).read_text() == "language model"
    assert "seq_rnn" in Path(found["lm_train_config"]).read_text()
    (perplexity,) = (tmp_path / "out").rglob("ppl")
    assert perplexity.read_text() == "2.5"


def test_language_model_that_the_decoding_names_goes_in(recipe, tmp_path):
    given, names = recipe
    other = tmp_path / "other"
    other.mkdir()
    (other / "lm.yaml").write_text("lm: seq_rnn")
    (other / "lm.pth").write_text("theirs")
    named = f"--lm_train_config {other}/lm.yaml --lm_file {other}/lm.pth"
    given = replace(given, inference_args=f"{named} --ngram_file none")
    found = unpack(pack(given, names), tmp_path / "out")
    assert Path(found["lm_file"]).read_text() == "theirs"
    assert "seq_rnn" in Path(found["lm_train_config"]).read_text()


def test_a_decoding_with_what_cannot_be_packed_is_refused(recipe):
    given, names = recipe
    packing.check(given, names)
    given = replace(given, inference_args="--ngram_file x.arpa")
    with pytest.raises(RecipeError, match="the decoding has ngram_file, and a packed"):
        packing.check(given, names)


def test_a_model_without_its_statistics_is_not_packed(recipe):
    _, names = recipe
    settings = yaml.safe_load((names.exp / "config.yaml").read_text())
    Path(settings["normalize_conf"]["stats_file"]).unlink()
    with pytest.raises(RecipeError, match="which is not there: write there"):
        packing.check(*recipe)


def test_what_a_killed_packing_left_goes(recipe):
    target = packing.target(*recipe)
    with packing.folder_beside(target) as folder:
        pass
    folder.mkdir()
    (folder / "model.pth").touch()
    pack(*recipe)
    assert not folder.exists()


def test_failure_leaves_nothing(recipe):
    given, names = recipe
    (names.exp / "RESULTS.md").unlink()
    with pytest.raises(FileNotFoundError):
        pack(given, names)
    assert not list(names.exp.glob("*.zip")) and not list(names.exp.glob(".*"))


def test_a_model_is_replaced_as_a_whole(recipe, monkeypatch):
    def replace(source, target):
        replaced.append((target, path.read_bytes()))
        return os_replace(source, target)

    path = packing.target(*recipe)
    path.write_bytes(b"old")
    replaced, os_replace = [], os.replace
    monkeypatch.setattr(os, "replace", replace)
    pack(*recipe)
    assert replaced == [(path, b"old")]
