"""YAML files are read flat, and a mistake in one is named with its line."""

import math
from pathlib import Path

import pytest

from espnet_srupp.recipe import config
from espnet_srupp.recipe.errors import RecipeError


def test_keys_are_joined_by_dots(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text("optim: adam\nencoder_conf:\n    a: {b: 1}\n    c: [1, 2]\n")
    assert config.read(str(path)) == {
        "optim": "adam",
        "encoder_conf.a.b": 1,
        "encoder_conf.c": [1, 2],
    }


def test_arguments_override_the_file(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text("max_epoch: 5\nseed: 1\n")
    assert config.read(str(path), "--max_epoch 9") == {"max_epoch": "9", "seed": 1}


def test_the_last_of_an_option_counts():
    assert config.read("", "--lm_weight 0.2 --lm_weight 0.3") == {"lm_weight": "0.3"}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("--a_conf b=2 --a_conf c.d=null", id="pairs"),
        pytest.param("--a_conf '{b: 2, c: {d: null}}'", id="mapping"),
    ],
)
def test_arguments_override_single_keys_as_the_file_would(tmp_path, words):
    path = tmp_path / "train.yaml"
    path.write_text("a_conf: {b: 1, c: {d: conv2d}, e: 3}\n")
    assert config.read(str(path), words) == {"a_conf.b": 2, "a_conf.c.d": None} | {
        "a_conf.e": 3
    }


def test_all_after_the_first_equals_sign_is_the_value():
    assert config.read("", "--a_conf b=c=d") == {"a_conf.b": "c=d"}
    # which is no mapping
    words = "--deepspeed_config a=b.json"
    assert config.read("", words) == {"deepspeed_config": "a=b.json"}


def test_argument_that_is_not_yaml_is_named():
    with pytest.raises(RecipeError, match="--a_conf .* is not YAML"):
        config.read("", "--a_conf '{a: &x {b: *x}}'")
    with pytest.raises(RecipeError, match="--a_conf b=\\[ is not YAML"):
        config.read("", "--a_conf b=[")
    with pytest.raises(RecipeError, match="--a_conf .* is not YAML"):
        config.read("", "--a_conf 'b=!!python/object/apply:os.getcwd []'")


@pytest.mark.parametrize("value", ["ten", None, [3], "1.5", "1.5.2", math.inf])
def test_what_is_no_number_is_named(value):
    with pytest.raises(RecipeError, match="max_epoch is .*: give a whole"):
        config.number({"max_epoch": value}, "max_epoch", 40, int)
    assert config.number({"max_epoch": "7"}, "max_epoch", 40, int) == 7
    assert config.number({}, "max_epoch", 40, int) == 40
    with pytest.raises(RecipeError, match="lr is 'ten': give a number in"):
        config.number({"lr": "ten"}, "lr", 1.0)


def test_no_file_is_nothing():
    assert config.read("") == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"a: 1\nb: [1, 2\nc: 3\n", "line 3", id="bracket"),
        pytest.param(b"a: 1\n\tb: 2\n", "line 2", id="tabulator"),
        pytest.param(b"a\nb\n", "key: value", id="no keys"),
        pytest.param(b"", "key: value", id="empty"),
        pytest.param(b"a: \xff\n", "UTF-8", id="encoding"),
        pytest.param(b"a: 2001-99-99\n", "not YAML", id="no date"),
        pytest.param(b"a: !!bool x\n", "not YAML", id="no truth"),
        pytest.param(b"[" * 5000, "not YAML", id="nested"),
        pytest.param(b"a: &x {b: *x}\n", "not YAML", id="in itself"),
        pytest.param(
            b"a: &a {x: 1}\n"
            + b"".join(
                b"%c: &%c {p: *%c, q: *%c}\n" % (i + 1, i + 1, i, i)
                for i in range(ord("a"), ord("z"))
            ),
            "its aliases make more than 1000000 values",
            id="aliases",
        ),
        pytest.param(
            b"a: !!python/object/apply:os.mkdir [ran]\n", "not YAML", id="code"
        ),
    ],
)
def test_mistake_is_named(tmp_path, monkeypatch, content, said):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.yaml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=f"train.yaml.*{said}"):
        config.read(str(path))
    assert not Path("ran").exists()


def test_arguments_are_read_as_espnet_reads_them():
    words = "--max-epoch 10 --optim_conf lr=1 --freeze_param a b --use_amp=true"
    assert config.arguments(words) == [
        ("max_epoch", "10"),
        ("optim_conf", "lr=1"),
        ("freeze_param", "a b"),
        ("use_amp", "true"),
    ]


def test_words_in_front_of_all_options_are_left_to_espnet_which_refuses_them():
    assert config.read("", "max_epoch 10 --seed 3") == {
        "": "max_epoch 10",
        "seed": "3",
    }
