"""What a training begins with is found, and is not nothing."""

from pathlib import Path

import pytest
import torch

from espnet_srupp.recipe import config, init_param, model_stages
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options


def starts(given, settings, overrides=""):
    return init_param.files(init_param.words(given, settings, overrides))


@pytest.mark.parametrize(
    ("given", "named", "files"),
    [
        ("a.pth:encoder:encoder", None, ["a.pth"]),
        ("", "b.pth c.pth:x:y", ["b.pth", "c.pth"]),
        ("a.pth", ["b.pth:::decoder"], ["a.pth", "b.pth"]),
        ("", [], []),
    ],
)
def test_a_training_depends_on_the_parameters_it_begins_with(given, named, files):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    found = starts(given, {"init_param": named})
    assert found == list(map(Path, files))
    options = Options(**sets, pretrained_model=given, asr_args="--init_param b.pth:x")
    (step,) = model_stages.train_model(options, layout(options))
    assert Path("b.pth") in step.inputs
    assert (Path("a.pth") in step.inputs) == bool(given)


def test_files_of_parameters_may_have_blanks_in_their_names():
    words = "--init_param 'a b.pth:x:y' c.pth --max_epoch 3"
    settings = config.read("", words)
    assert starts("", settings, words) == [Path("a b.pth"), Path("c.pth")]


def test_parameters_that_are_no_files_are_told():
    with pytest.raises(RecipeError, match="init_param is 1.5: give files"):
        starts("", {"init_param": 1.5})


@pytest.fixture
def checkpoint(tmp_path):
    names = ("encoder.embed.weight", "encoder.output.bias", "ctc.ctc_lo.bias")
    torch.save(dict.fromkeys(names, torch.ones(1)), tmp_path / "a.pth")
    return f"{tmp_path}/a.pth"


@pytest.mark.parametrize(
    "keys",
    [
        *("", ":", "::", ":encoder", ":encoder:encoder", ":encoder.embed:x"),
        *("::decoder", "::encoder:ctc", ":encoder:encoder:encoder.embed,ctc"),
    ],
)
def test_parameters_that_are_there_may_be_taken(checkpoint, keys):
    init_param.check([f"{checkpoint}{keys}"])


@pytest.mark.parametrize(
    "keys",
    [
        *(":decoder", ":encodr:encoder", ":encoder:encoder:", ":::", ":::encoder,ctc"),
        *(":encoder.embed:encoder.embed:encoder",),
    ],
)
def test_a_training_does_not_begin_from_scratch_in_silence(checkpoint, keys):
    with pytest.raises(RecipeError) as raised:
        init_param.check([checkpoint, f"{checkpoint}{keys}"])
    assert f"a.pth{keys} takes no parameters" in str(raised.value)
    assert "begin with ctc, encoder, and" in str(raised.value)


def test_what_espnet_cannot_split_is_told(checkpoint):
    with pytest.raises(RecipeError, match="has more than FILE:FROM:TO:EXCEPT"):
        init_param.check([f"{checkpoint}:a:b:c:d"])


def test_deepspeeds_checkpoints_have_their_parameters_deeper(tmp_path):
    torch.save({"module": {"encoder.a": torch.ones(1)}}, tmp_path / "a.pth")
    init_param.check([f"{tmp_path}/a.pth:encoder"])
    with pytest.raises(RecipeError, match="their names begin with encoder,"):
        init_param.check([f"{tmp_path}/a.pth:decoder"])


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK"])
def test_a_file_that_is_none_is_left_to_espnet(tmp_path, content):
    (tmp_path / "a.pth").write_bytes(content)
    init_param.check([f"{tmp_path}/a.pth"])


@pytest.mark.parametrize("content", [[1.5], torch.ones(2), {}, {"module": {}}])
def test_a_file_without_parameters_is_left_to_espnet(tmp_path, content):
    torch.save(content, tmp_path / "a.pth")
    init_param.check([f"{tmp_path}/a.pth:encoder"])
