"""`python3 -m espnet_srupp.profile`: its table, and what it says of bad configs."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_profile import SIZES

from espnet_srupp import profile

ROOT = Path(__file__).parents[1]


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["profile", *map(str, arguments)])
    profile.main()


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump({"encoder": "srupp", "encoder_conf": SIZES}))
    return path


def test_command_line_prints_the_table(config, monkeypatch, capsys):
    run(monkeypatch, config, "--frames", 200)
    printed = capsys.readouterr().out
    assert "SRUppEncoder, 200 frames of 80 features" in printed
    for part in ("embed", "  conv", "encoders", "    query", "output", "total"):
        assert f"\n{part} " in printed


def test_a_thousand_frames_are_counted_unless_another_number_is_given(
    config, monkeypatch, capsys
):
    run(monkeypatch, config)
    assert "SRUppEncoder, 1000 frames of" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"encoder_conf": {"fff": 1}}, "unexpected keyword argument 'fff'"),
        ({"encoder_conf": {"num_blocks": "two"}}, "num_blocks"),
        # of which typeguard says more than one line
        ({"encoder_conf": {"output_size": "two"}}, "int: is not"),
        ({"encoder_conf": {"input_layer": "fff"}}, "unknown input_layer: fff"),
        ({"encoder": "fff"}, "fff"),
        ({"encoder_conf": {"interctc_layer_idx": [99]}}, "outside of 1 to"),
        ({"frontend": None}, "it has no frontend: give input_size"),
        ({"encoder": None}, "it has no encoder: give the YAML of a training"),
        (
            {"encoder": "transformer", "encoder_conf": {"attention_heads": 3}},
            ": AssertionError",
        ),
        (
            {"encoder": "transformer", "encoder_conf": {"output_size": -8}},
            "negative dimension",
        ),
        (
            {"encoder": "transformer", "encoder_conf": {"attention_heads": 0}},
            "by zero",
        ),
        ({"frontend_conf": {"fs": "abc"}}, "Failed to parse size"),
    ],
    ids=[
        *("option", "type", "types", "value", "encoder", "layer", "no frontend"),
        *("no encoder", "without a word", "negative", "no heads", "rate"),
    ],
)
def test_a_config_that_does_not_fit_is_named(
    change, sentence, config, monkeypatch, capsys
):
    config.write_text(yaml.safe_dump({"encoder": "srupp"} | change))
    with pytest.raises(SystemExit):
        run(monkeypatch, config)
    *_, error = capsys.readouterr().err.splitlines()
    assert str(config) in error and sentence in error


@pytest.mark.parametrize(
    "frames, sentence",
    [
        ("3", "too short for subsampling"),
        ("0", "--frames 0 is not"),
        ("-5", "--frames -5 is not"),
    ],
)
def test_frames_that_make_no_output_are_named(
    frames, sentence, config, monkeypatch, capsys
):
    with pytest.raises(SystemExit):
        run(monkeypatch, config, "--frames", frames)
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, sentence",
    [
        (b"", "not a list of 'key: value' lines"),
        (b"a: *x", "undefined alias 'x'"),
        (b"a: !!python/name:os.system", "python/name"),
    ],
    ids=["empty", "alias", "tag"],
)
def test_a_config_that_is_not_yaml_is_named(
    text, sentence, config, monkeypatch, capsys
):
    config.write_bytes(text)
    with pytest.raises(SystemExit):
        run(monkeypatch, config)
    *_, error = capsys.readouterr().err.splitlines()
    assert str(config) in error and sentence in error


def test_a_config_of_a_language_model_is_named(config, monkeypatch, capsys):
    config.write_text("lm: transformer\nlm_conf: {layer: 2}\n")
    with pytest.raises(SystemExit):
        run(monkeypatch, config)
    *_, error = capsys.readouterr().err.splitlines()
    assert str(config) in error and "of a language model" in error


def test_a_config_without_an_encoder_is_not_that_of_an_rnn(config, monkeypatch, capsys):
    config.write_text("encodr: srupp\n")
    with pytest.raises(SystemExit):
        run(monkeypatch, config)
    assert "has no encoder: give the YAML of a training" in capsys.readouterr().err


def test_an_encoder_without_options_has_its_defaults(config, monkeypatch, capsys):
    config.write_text("encoder: transformer\n")
    run(monkeypatch, config, "--frames", 50)
    assert "TransformerEncoder, 50 frames" in capsys.readouterr().out


def test_the_model_of_espnet3_s_yaml_is_that_of_espnet2_s(config, monkeypatch, capsys):
    run(monkeypatch, config)
    expected = capsys.readouterr().out
    model = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({"num_device": 1, "model": model}))
    run(monkeypatch, config)
    assert capsys.readouterr().out == expected


def test_nobody_who_reads_on_is_no_error(config):
    command = f"{sys.executable} -m espnet_srupp.profile {config} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT)
    assert "Error" not in done.stderr


def test_a_config_that_does_not_exist_is_named(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path / "no.yaml")
    assert "there is no file" in capsys.readouterr().err


def test_it_names_what_is_not_installed(tmp_path, monkeypatch, capsys):
    path = tmp_path / "train.yaml"
    path.write_text("encoder: srupp\nfrontend: s3prl\n")
    monkeypatch.setitem(sys.modules, "s3prl", None)
    monkeypatch.setattr(sys, "argv", ["profile", str(path)])
    with pytest.raises(SystemExit):
        profile.main()
    assert f"{path}: import of s3prl" in capsys.readouterr().err
