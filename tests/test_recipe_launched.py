"""What the user sees of a training that ESPnet's launcher starts elsewhere."""

import shlex
import sys
from pathlib import Path

import pytest

from espnet_srupp.recipe import stage, training
from espnet_srupp.recipe.options import Options

RECORD = {"options": {"seed": "1", "max_epoch": "3"}, "inputs": {}}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# as ESPnet's launcher: puts the log aside, begins one, and says something itself
LAUNCHER = """
from pathlib import Path
log = Path("exp/train.log")
log.rename("exp/train.1.log")
log.write_text("2epoch results: [train] loss=1, [valid] loss=1\\n")
print("a launcher's words")
"""


def test_the_words_of_a_launcher_are_in_no_log_of_the_training(here, capsys):
    exp = Path("exp")
    exp.mkdir()
    stage.write(exp / training.BEGUN, RECORD)
    (exp / "1epoch.pth").touch()
    before = "1epoch results: [train] loss=1, [valid] loss=1\n"
    (exp / "train.log").write_text(before)
    Path("launcher.py").write_text(LAUNCHER)
    given = Options(host="one", python=f"{shlex.quote(sys.executable)} launcher.py")
    training.train(given, exp, lambda _: [], RECORD)
    assert (exp / "train.1.log").read_text() == before
    assert "a launcher's words" in (exp / "launch.log").read_text()
    assert "epoch 2/0: train loss 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"), [({}, False), ({"host": "a:0"}, True), ({"cuda_cmd": "x"}, True)]
)
def test_what_a_launcher_leaves_running_is_told(here, monkeypatch, capsys, given, told):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training.process, "run", interrupted)
    options = Options(ngpu=0, **given)
    Path("exp").mkdir()
    with pytest.raises(KeyboardInterrupt):
        training.train(options, Path("exp"), lambda _: [], RECORD)
    assert ("MAY STILL RUN" in capsys.readouterr().out) == told
