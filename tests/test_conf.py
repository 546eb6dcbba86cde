"""Every training configuration builds its model; what is compared is comparable."""

from pathlib import Path

import pytest
import yaml

from espnet_srupp.task import ASRTask

CONF = Path(__file__).parents[1] / "conf"
TRAININGS = sorted(CONF.glob("*/train*.yaml"))
ALL = pytest.mark.parametrize(
    "path", TRAININGS, ids=lambda path: f"{path.parent.name}/{path.stem}"
)
TOKENS = ["<blank>", "<unk>", *"▁ABCDEFGHIJKLMNOPQRSTUVWXYZ", "<sos/eos>"]


def load(path):
    return yaml.safe_load(path.read_text())


def build(path):
    """The model of a configuration, as ESPnet's training builds it."""
    words = ["--config", str(path), "--output_dir", "x", "--token_type", "char"]
    args = ASRTask.get_parser().parse_args(words)
    args.token_list = TOKENS
    return ASRTask.build_model(args)


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


@ALL
def test_configuration_builds_a_model(path):
    assert parameters(build(path)) > 1e6


@ALL
def test_first_line_says_what_it_is(path):
    assert path.read_text().startswith("# ")


def test_an4_compares_encoders_of_one_size_and_nothing_else():
    ours, theirs = (
        CONF / "an4" / f"train_asr_{name}.yaml" for name in ("srupp", "conformer")
    )
    sizes = [parameters(build(path).encoder) for path in (ours, theirs)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    rest = [
        {k: v for k, v in load(path).items() if not k.startswith("encoder")}
        for path in (ours, theirs)
    ]
    assert rest[0] == rest[1]
