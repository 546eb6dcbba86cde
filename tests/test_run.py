"""The runner: arguments, errors, and ESPnet's own programs with `srupp` in them."""

import argparse
import inspect
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import yaml
from processes import unchecked

from espnet_srupp import compat, names, run
from espnet_srupp.encoder import SRUppEncoder

PROGRAM = "import sys\ndef main():\n    print(*sys.argv)\n"
ASR_TRAIN = Path(find_spec("espnet2.bin.asr_train").origin)


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Calls the runner with arguments; programs lie in tmp_path."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(run, "keep_freed", lambda: None)  # for all tests after this

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["run.py", *map(str, arguments)])
        run.main()
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("as_module", [True, False], ids=["module", "script"])
def test_the_program_sees_its_own_arguments(call, tmp_path, as_module):
    path = tmp_path / "program_with_main.py"
    path.write_text(PROGRAM)
    target = ["-m", path.stem] if as_module else [path]
    assert call(*target, "-m", "--help", "x y") == f"{path} -m --help x y\n"


@pytest.mark.parametrize("linked", [False, True])
def test_a_script_finds_its_neighbours_as_with_python(call, tmp_path, linked):
    """Those beside the file that a link leads to, before others of their name."""
    (tmp_path / "neighbour.py").write_text("WORD = 'another'\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "neighbour.py").write_text("WORD = 'found'\n")
    script = tmp_path / "scripts" / "has_neighbour.py"
    script.write_text("import neighbour\ndef main():\n    print(neighbour.WORD)\n")
    link = tmp_path / "link.py"
    link.symlink_to(script)
    assert call(link if linked else script) == "found\n"


@pytest.mark.parametrize("asked", [True, False])
def test_names_cut_short_are_refused_where_that_is_asked_for(
    asked, call, monkeypatch, tmp_path, capsys
):
    (tmp_path / "takes_epochs.py").write_text(
        "import argparse\ndef main():\n"
        "    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--max_epoch')\n"
        "    print(parser.parse_args().max_epoch)\n"
    )
    monkeypatch.setattr(
        argparse.ArgumentParser, "__init__", argparse.ArgumentParser.__init__
    )
    monkeypatch.setenv(names.ASKED, "1" if asked else "")
    given = ["-m", "takes_epochs", "--max_ep", "7"]
    if not asked:
        assert call(*given) == "7\n"
        return
    with pytest.raises(SystemExit):
        call(*given)
    assert "unrecognized arguments: --max_ep 7" in capsys.readouterr().err


def run_script(folder, text, *words):
    """Runs `program.py`, or what `words` say, in a process of its own."""
    (folder / "program.py").write_text(text)
    words = [sys.executable, "-m", "espnet_srupp.run", *(words or ["program.py"])]
    return subprocess.run(
        words, cwd=folder, env=unchecked(), stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("name", ["asr_train", "asr_inference"])
def test_trainings_alone_keep_what_they_free(call, tmp_path, monkeypatch, name):
    kept = []
    monkeypatch.setattr(run, "keep_freed", lambda: kept.append(name))
    (tmp_path / f"our_{name}.py").write_text(PROGRAM)
    call("-m", f"our_{name}")
    assert kept == (["asr_train"] if name == "asr_train" else [])


def test_the_exit_code_is_the_programs(tmp_path):
    assert run_script(tmp_path, "def main():\n    return 3\n").returncode == 3


SAVES = """
import multiprocessing, sys, torch

def check():
    sys.exit(not hasattr(torch.save, "__wrapped__"))

def main():
    process = multiprocessing.get_context("spawn").Process(target=check)
    process.start()
    process.join()
    return process.exitcode
"""


def test_spawned_processes_save_whole_checkpoints(tmp_path):
    assert run_script(tmp_path, SAVES).returncode == 0


# what Lightning does for each further GPU
LIGHTNING = """
import os, subprocess, sys

def main():
    print(os.environ.get("LOCAL_RANK", "0"), *sys.argv[1:], flush=True)
    if "LOCAL_RANK" in os.environ:
        return 0
    module = sys.modules["__main__"].__spec__.name
    command = [sys.executable, "-m", module, *sys.argv[1:]]
    return subprocess.run(command, env={**os.environ, "LOCAL_RANK": "1"}).returncode
"""


@pytest.mark.once
@pytest.mark.parametrize("as_module", [True, False], ids=["module", "script"])
def test_processes_of_lightning_run_the_same_program(tmp_path, as_module):
    target = ["-m", "program"] if as_module else ["program.py"]
    done = run_script(tmp_path, LIGHTNING, *target, "--x", "a b")
    assert (done.stdout, done.returncode) == ("0 --x a b\n1 --x a b\n", 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="ESPnet's own is used on GPUs")
def test_trainings_mix_precisions_on_a_cpu(tmp_path):
    show = "print(trainer.GradScaler()._device, trainer.autocast.__module__)"
    program = f"from espnet2.train import trainer\ndef main():\n    {show}\n"
    found = run_script(tmp_path, program)
    # what ESPnet prints at import comes first
    assert found.stdout.split()[-2:] == ["cpu", "espnet_srupp.precision"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected -m MODULE or SCRIPT.py"),
        (["-m"], "expected -m MODULE or SCRIPT.py"),
        (["--stage", "1"], "expected -m MODULE or SCRIPT.py"),
        (["-m", "espnet2.bin.no_such"], "there is no module espnet2.bin.no_such"),
        (["-m", "no_such.program"], "there is no module no_such.program"),
        (["no_such.py"], "there is no script no_such.py"),
        (["-m", ".program"], "there is no module .program: check"),
        (["-m", "espnet2..bin"], "there is no module espnet2..bin: check"),
        (["-m", ""], "there is no module '': check"),
        (["-m", "string"], "string has no main() to run"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_one_sentence(call, arguments, message):
    with pytest.raises(SystemExit) as error:
        call(*arguments)
    assert error.value.code.startswith(f"error: {message}")
    assert error.value.code.count("\n") == 0


# of which the second is no file, but part of Python
@pytest.mark.parametrize("name", ["calendar.py", "time.py"])
def test_a_script_named_as_a_module_is_not_mistaken_for_it(call, tmp_path, name):
    (tmp_path / name).write_text(PROGRAM)
    with pytest.raises(SystemExit, match=f"{name} has the name of a module"):
        call(tmp_path / name)


def test_a_script_with_a_dot_within_its_name_is_told(call, tmp_path):
    (tmp_path / "my.script.py").write_text(PROGRAM)
    with pytest.raises(SystemExit, match="my.script.py has a dot within its name"):
        call(tmp_path / "my.script.py")


def test_an_error_inside_the_program_keeps_its_traceback(call, tmp_path):
    (tmp_path / "program_that_fails.py").write_text("import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        call("-m", "program_that_fails")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_shows_the_usage(call, option):
    assert "usage: python3 -m espnet_srupp.run -m MODULE" in call(option)


def test_a_lazy_import_runs_at_first_use(call, tmp_path):
    (tmp_path / "loud.py").write_text("print('runs')\nVALUE = 1\n")
    (tmp_path / "user_of_loud.py").write_text(
        "import loud\ndef main():\n    print('main')\n    print(loud.VALUE)\n"
    )
    compat.import_lazily("loud")
    assert call("-m", "user_of_loud") == "main\nruns\n1\n"
    compat.import_lazily("no_such_module")
    assert "no_such_module" not in sys.modules


def espnet(*arguments, environment=None):
    """The outcome of a program."""
    result = subprocess.run(
        [sys.executable, "-m", "espnet_srupp.run", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize(
    ("target", "environment"),
    [
        # as users run it, with ESPnet's checks of types
        pytest.param(["-m", "espnet2.bin.asr_train"], None, id="module"),
        pytest.param([ASR_TRAIN], unchecked(), id="script", marks=pytest.mark.once),
    ],
)
def test_print_config_lists_the_encoder_and_its_defaults(target, environment):
    given = "--print_config", "--encoder", "srupp"
    result = espnet(*target, *given, environment=environment)
    config = yaml.safe_load(result.stdout)
    assert config["encoder"] == "srupp"
    parameters = inspect.signature(SRUppEncoder).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    assert config["encoder_conf"] == defaults
    assert "nltk" not in result.stderr


SPAWN = """
import multiprocessing
import sys

from espnet2.tasks.asr import ASRTask
from espnet2.train.distributed_utils import resolve_distributed_mode


def main():
    args = ASRTask.get_parser().parse_args()
    resolve_distributed_mode(args)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=ASRTask.main_worker, args=(args,))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


def test_a_spawned_training_process_builds_the_model(tmp_path):
    """What `ASRTask.main` does for each of several GPUs, here for none."""
    (tmp_path / "spawn_training.py").write_text(SPAWN)
    (tmp_path / "tokens.txt").write_text("<blank>\n<unk>\na\n<sos/eos>\n")
    sizes = "hidden_size=8 attention_size=4 embed_size=4 output_size=4 num_blocks=2"
    result = espnet(
        *("-m", "spawn_training", "--encoder", "srupp", "--input_size", 8),
        *(x for size in sizes.split() for x in ("--encoder_conf", size)),
        *("--model_conf", "ctc_weight=1.0"),
        *("--token_list", tmp_path / "tokens.txt", "--token_type", "char"),
        *("--dry_run", "true", "--iterator_type", "none"),
        *("--output_dir", tmp_path / "exp"),
        environment=unchecked(tmp_path),
    )
    config = yaml.safe_load((tmp_path / "exp" / "config.yaml").read_text())
    assert config["encoder_conf"]["hidden_size"] == 8
    assert "(encoder): SRUppEncoder(" in result.stderr


@pytest.mark.parametrize(
    ("started", "of_lightning"),
    [("1", True), (None, True), ("own", True), ("own", False)],
)
def test_the_end_of_a_command_is_made_whole_for_lightning_alone(
    started, of_lightning, monkeypatch
):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.delenv(run.STARTED, raising=False)
    if of_lightning:
        monkeypatch.setenv("LOCAL_RANK", "1")
    if started:
        parent = os.getppid() if started == "own" else started
        monkeypatch.setenv(run.STARTED, f"{parent}\n-m\nprogram")
    given = ["--x", "1"]
    whole = started == "own" and of_lightning
    assert run.words(given) == (["-m", "program", *given] if whole else given)
    assert run.STARTED not in os.environ


@pytest.mark.parametrize("given", [["program.py", "--x"], ["-m", "other", "--x"]])
def test_a_whole_command_stays_as_it_is(given, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv(run.STARTED, f"{os.getppid()}\nprogram.py")
    assert run.words(given) == given
