"""The generations of ESPnet: told apart, and refused in one sentence."""

import ast
import importlib
import importlib.metadata
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from espnet_srupp import compat


def test_version_is_the_installed_one():
    assert importlib.metadata.version("espnet") == compat.ESPNET_VERSION


def test_generation_follows_the_version():
    newer = int(compat.ESPNET_VERSION[:6]) >= 202609
    assert (202611 if newer else 202511) == compat.GENERATION


def test_too_short_utterances_raise_what_decoding_catches():
    source = Path(find_spec("espnet2.bin.asr_inference").origin).read_text()
    imports = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom)]
    (module,) = (
        node.module
        for node in imports
        if "TooShortUttError" in [alias.name for alias in node.names]
    )
    assert compat.TooShortUttError.__module__ == module


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("espnet2.bin.asr_train", True),
        ("espnet2.bin.no_such_program", False),
        ("no_such_package.program", False),
        ("espnet2.bin.asr_train.py", False),
    ],
)
def test_exists_tells_whether_a_module_can_be_found(name, expected):
    assert compat.exists(name) is expected


def run_with(code, path):
    command = f"import sys\nsys.path.insert(0, {str(path)!r})\n{code}"
    return subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, timeout=120
    )


MISSING = 'sys.modules["espnet2"] = None\n'
IMPORT = "import espnet_srupp.compat"
RUN = "import runpy\nrunpy.run_module('espnet_srupp.run', run_name='__main__')"


@pytest.fixture
def unknown_espnet(tmp_path):
    """A path with an ESPnet that has neither generation's layout."""
    for package in ("espnet", "espnet2"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("__version__ = '209901'\n")
    return tmp_path


def test_a_missing_espnet_is_one_sentence(tmp_path):
    result = run_with(MISSING + IMPORT, tmp_path)
    assert result.stderr.splitlines()[-1] == (
        "ImportError: ESPnet is not installed in this Python: "
        "`pip install espnet` adds it."
    )


def test_an_unknown_espnet_is_one_sentence(unknown_espnet):
    result = run_with(IMPORT, unknown_espnet)
    assert result.stderr.splitlines()[-1] == (
        "ImportError: ESPnet 209901 is of an unknown generation, having neither "
        "espnet2.legacy.nets nor espnet.nets: install 202511 or 202611."
    )


def test_the_runner_says_so_without_a_traceback(tmp_path, unknown_espnet):
    missing = run_with(MISSING + RUN, tmp_path / "nothing")
    unknown = run_with(RUN, unknown_espnet)
    assert missing.returncode == unknown.returncode == 1
    assert missing.stderr.startswith("error: ESPnet is not installed")
    assert unknown.stderr.startswith("error: ESPnet 209901 is of an unknown")
    assert len(missing.stderr.splitlines()) == len(unknown.stderr.splitlines()) == 1


def test_the_runner_keeps_the_traceback_of_another_import_that_fails(tmp_path):
    broken = run_with('sys.modules["torch"] = None\n' + RUN, tmp_path)
    assert broken.stderr.startswith("Traceback")


def test_the_asr_task_is_the_newest():
    newest = "espnet3" if compat.GENERATION == 202611 else "espnet2"
    assert compat.ASR_TASK.startswith(f"{newest}.")


def test_an_imported_module_is_not_put_off(tmp_path, monkeypatch):
    (tmp_path / "early_one.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    module = importlib.import_module("early_one")
    compat.import_lazily("early_one")
    assert sys.modules["early_one"] is module


def test_a_module_put_off_lacks_what_it_does_not_have(tmp_path, monkeypatch):
    (tmp_path / "late_one.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    compat.import_lazily("late_one")
    module = importlib.import_module("late_one")
    assert not hasattr(module, "OTHER")
    assert module.VALUE == 1


def test_what_downloads_at_its_import_is_put_off(tmp_path):
    (tmp_path / "g2p_en.py").write_text("print('downloading')\nG2p = 1\n")
    code = "import espnet_srupp.compat, g2p_en\nprint('imported')\nprint(g2p_en.G2p)"
    told = run_with(code, tmp_path).stdout.splitlines()
    assert told == ["imported", "downloading", "1"]
