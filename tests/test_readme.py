"""README keeps its word: its Python runs, its commands and tables name what exists."""

import inspect
import re
import shlex
from importlib import import_module
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

from espnet_srupp import compat
from espnet_srupp.encoder import SRUppEncoder
from espnet_srupp.recipe import arguments

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands():
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    # of ESPnet's own recipes, which are not here
    return [
        shlex.split(line, comments=True)
        for line in lines
        if "espnet/egs2" not in line and not line.startswith("./run.sh")
    ]


def test_the_python_example_gives_the_shapes_it_names():
    (example,) = blocks("python")
    names = {}
    exec(example, names)
    assert "(2, 124, 512), tensor([124, 79])" in example
    assert names["xs"].shape == (2, 124, 512)
    assert names["olens"].tolist() == [124, 79]


def test_the_yaml_line_is_yaml():
    assert [yaml.safe_load(block) for block in blocks("yaml")] == [{"encoder": "srupp"}]


def test_the_table_lists_every_option_of_the_encoder_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", README, re.MULTILINE)
    parameters = inspect.signature(SRUppEncoder.__init__).parameters.values()
    expected = {p.name: p.default for p in parameters}
    del expected["self"], expected["input_size"]
    assert {name: yaml.safe_load(value.strip("`")) for name, value in rows} == expected


def check_installation(words):
    if "-c" in words:
        assert (ROOT / words[words.index("-c") + 1]).exists()
    for extra in re.findall(r"\.\[(.*)\]", " ".join(words)):
        assert {*extra.split(",")} <= {
            *metadata("espnet_srupp").get_all("Provides-Extra")
        }


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_command_names_what_exists(command, monkeypatch):
    if command[0] == "make":
        assert re.search(rf"^{command[1]}:", (ROOT / "Makefile").read_text(), re.M)
    elif command[0].startswith("recipes/"):
        script = ROOT / command[0]
        assert script.stat().st_mode & 0o100
        words = shlex.split(script.read_text(), comments=True)
        start, end = words.index("espnet_srupp.recipe.asr"), words.index("$@")
        own = [word for word in words[start + 1 : end] if word != "\n"]
        monkeypatch.chdir(script.parent)
        given = arguments.parse([*own, *command[1:]], ROOT)
        assert all(Path(path).exists() for path in given.asr_configs)
    elif command[:1] == ["python3"] and command[1].endswith(".py"):
        assert (ROOT / command[1]).exists()
    elif command[2:3] == ["espnet_srupp.profile"]:
        assert (ROOT / command[3]).exists()
    elif command[2:3] == ["espnet_srupp.longform"]:
        parser = arguments.Parser()
        module = command[3].replace("-", "_")
        import_module(f"espnet_srupp.longform.{module}").options(parser)
        parser.parse_args(command[4:])
    elif command[:4] == ["python3", "-m", "espnet_srupp.run", "-m"]:
        assert compat.exists(command[2]) and compat.exists(command[4])
    elif command[:2] == ["pip", "install"]:
        check_installation(command[2:])
    else:
        pytest.fail("nothing checks it")
