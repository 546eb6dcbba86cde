"""What benchmarks/ does on machines that are not at hand: with a GPU, without git."""

import json
import re
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from data.small_encoder import SMALL

pytestmark = pytest.mark.once

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "1")  # nothing is kept for all tests after


def test_without_git_the_commit_is_unknown(monkeypatch):
    import machine

    monkeypatch.setenv("PATH", "")
    assert machine.describe("torch")["commit"] == "unknown"


def test_results_are_no_changes_of_what_is_measured(tmp_path, monkeypatch):
    import machine

    measured, result = tmp_path / "a.py", tmp_path / "benchmarks" / "results" / "a.json"
    result.parent.mkdir(parents=True)
    monkeypatch.setattr(machine, "__file__", str(result.parents[1] / "machine.py"))
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for path in (measured, result):
        path.touch()
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    changed = []
    for path in (result, measured):
        path.write_text("changed")
        changed.append("with changes" in machine.describe("torch")["commit"])
    assert changed == [False, True]


def test_no_script_takes_the_name_of_a_module_that_others_import():
    # a script's own folder comes before the installed packages
    names = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
    code = f"import numba, {', '.join(names)}"
    subprocess.run([sys.executable, "-c", code], cwd=BENCHMARKS, check=True)


def test_a_command_is_told_from_here_and_without_files_for_results(monkeypatch):
    import machine

    monkeypatch.chdir(BENCHMARKS.parent / "recipes")
    script = str(BENCHMARKS / "encoder.py")
    words = [script, "a b.yaml", "--json", "/x/y.json", "--threads", "2"]
    told = machine.command([*words, "--picture=p.png"])
    assert told == "python3 ../benchmarks/encoder.py 'a b.yaml' --threads 2"


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("results/*.json")), ids=str)
def test_a_result_tells_no_path_of_its_machine(path):
    assert not re.search(r'[" =]/\w', path.read_text())


def test_what_is_laid_out_for_sru_comes_back():
    from recurrence_cases import for_sru, from_sru, make

    u, x, *_ = make(4, 2, 3, torch.float32, device="cpu")
    candidate, forget, reset = for_sru(u).view(4, 2, 3, 3).unbind(-1)
    assert torch.equal(torch.stack([forget, reset, candidate], 2), u)
    assert torch.equal(from_sru(for_sru(u), x), u)


def test_nan_is_a_difference():
    from recurrence_cases import difference

    ones, nan = torch.ones(2), torch.tensor([1.0, torch.nan])
    assert difference([ones, ones], [ones, ones], 1e-4) == 0
    with pytest.raises(SystemExit, match="no time is reported"):
        difference([ones, nan], [ones, ones], 1e-4)


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        ("recurrence", "--frames 0", "argument --frames: 0 is not 1 or more"),
        ("recurrence", "--size 3", "--size 3: give an even number"),
        (
            "encoder",
            "{file} --json {file}/x.json",
            "x.json cannot be written",
        ),
        ("encoder", "{file} {file}", "two configurations have the same"),
        (
            "encoder",
            "{file} --lengths {file}s",
            "argument --lengths: there is no file {file}s",
        ),
        ("encoder", "{file} --seconds 0", "argument --seconds: 0 is not a number"),
        ("encoder", "{file} --seconds 1 --lengths {file}", "--lengths tells how long"),
        ("encoder", "{file} --picture {file}.xyz", "does not end in .png or .svg"),
        ("longform", "{file} a=b --minutes -1", "argument --minutes: -1 is not a"),
        ("onnx_runtime", "{file}s", "argument config: there is no file {file}s"),
        ("longform", "data a={file}s", "there is no experiment {file}s"),
        ("recurrence", "--sweep", "--sweep is for a GPU"),
        ("longform", "data exp", "argument MODEL=EXP: exp is not NAME=PATH"),
        ("longform", "data a=b a=c", "MODEL=EXP: the name a is given 2 times"),
        ("same_transcript", "data a=b a=c", "MODEL=EXP: the name a is given 2 times"),
        ("speaking_rate", "data a=b a=c", "NAME=TEXT: the name a is given 2 times"),
        ("word_times", "data d a=b a=c", "NAME=RESULTS: the name a is given 2 times"),
        ("kept_memory", "{file} --steps 0", "argument --steps: 0 is not 1 or more"),
        ("study", "exp --out x", "argument VARIANT=EXP: exp is not NAME=PATH"),
    ],
)
def test_a_wrong_argument_is_one_sentence(
    script, words, message, tmp_path, monkeypatch, capsys
):
    file = tmp_path / "file"
    file.touch()
    words, message = (each.format(file=file) for each in (words, message))
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *words.split()])
    with pytest.raises(SystemExit) as error:
        import_module(script).parse()
    assert error.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        (
            "encoder",
            "{yaml} --threads 1",
            "{yaml}: SRUppEncoder.__init__() got an unexpected",
        ),
        (
            "encoder",
            "{empty} --threads 1",
            "{empty} is not a list of 'key: value' lines",
        ),
        (
            "encoder",
            "{small} --threads 1 --seconds 0.05",
            "an utterance has 5 frames and is too",
        ),
        (
            "encoder",
            "{small} --threads 1 --lengths {lengths}",
            "{lengths}: a has 0 samples: give",
        ),
        ("memory", "{folder} {folder}", "No such file or directory: '{folder}/config"),
        ("longform", "{folder} a={folder}", "{folder}/wav.scp is missing"),
        ("speaking_rate", "{folder} a=b", "{folder}/wav.scp is missing"),
        ("study", "a={folder} --out {folder}", "{folder} has no finished epoch"),
    ],
)
def test_what_is_not_there_is_told_in_one_sentence(
    script, words, message, tmp_path, monkeypatch, capsys
):
    given = {"folder": tmp_path, "yaml": tmp_path / "a", "empty": tmp_path / "b"}
    given["yaml"].write_text("{encoder: srupp, encoder_conf: {size: 1}}")
    given["empty"].touch()
    given |= {"small": tmp_path / "c", "lengths": tmp_path / "d"}
    given["small"].write_text(json.dumps({"encoder": "srupp", "encoder_conf": SMALL}))
    given["lengths"].write_text("a 0\n")
    words = [str(BENCHMARKS / f"{script}.py"), *words.format(**given).split()]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as error:
        runpy.run_path(words[0], run_name="__main__")
    assert error.value.code == 1
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith("error: ")
    assert message.format(**given) in told


def test_what_sru_is_compiled_with_is_sought_before_anything_is_timed(monkeypatch):
    import recurrence

    monkeypatch.setattr(recurrence, "find_spec", lambda _: True)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", "g++")
    assert recurrence.missing() == ["ninja", "g++"]


def test_ctrl_c_ends_a_script_without_a_traceback(capsys):
    import machine

    def work():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as error:
        machine.run(work)
    assert error.value.code == 130
    assert capsys.readouterr().err.startswith("interrupted: ")


def test_a_gpu_s_figures_are_written_where_they_are_wanted(monkeypatch, tmp_path):
    import recurrence_beside
    import recurrence_cuda

    monkeypatch.setattr(recurrence_cuda, "describe", lambda: {"card": "x"})
    for name in ("copy_bandwidth", "compare_with_reference"):
        monkeypatch.setattr(recurrence_cuda, name, lambda *_: 1.0)
    monkeypatch.setattr(recurrence_beside, "rows", lambda _: [])
    row = {"dtype": "float32", "T": 1, "B": 1, "name": "x", "ms": 1, "gbs": 1}
    measured = [row | {"share": 1.0}]
    monkeypatch.setattr(recurrence_cuda, "measure_all", lambda *_: measured)
    monkeypatch.setattr(recurrence_cuda, "draw", lambda _, target: target.touch())
    written = []
    monkeypatch.setattr(Path, "write_text", lambda path, _: written.append(path))
    for target in (None, tmp_path / "a.json"):
        given = {"repeats": 1, "size": 2, "sweep": False, "json": target}
        recurrence_cuda.main(SimpleNamespace(**given))
    assert written == [tmp_path / "a.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def measured_attention(monkeypatch, capsys, tmp_path):
    import attention

    target = tmp_path / "attention.json"
    words = ["--sizes", "8", "--frames", "20", "--repeats", "1", "--json", str(target)]
    monkeypatch.setattr(sys, "argv", ["attention.py", *words])
    attention.main()
    return json.loads(target.read_text())["rows"], capsys.readouterr().out


def test_both_ways_to_attend_are_compared_and_timed(monkeypatch, capsys, tmp_path):
    rows, told = measured_attention(monkeypatch, capsys, tmp_path)
    assert [row["what"] for row in rows] == ["inference", "step"]
    for row in rows:
        assert row["tiles_ms"] > 0 and row["sdpa_ms"] > 0 and row["difference"] < 1e-3
    assert told.count("x the speed; chosen: sdpa") == 2


def test_where_sdpa_has_no_kernel_tiles_alone_are_timed(monkeypatch, capsys, tmp_path):
    def refuse(*_):
        raise RuntimeError("No available kernel. Aborting execution.")

    monkeypatch.setattr(F, "scaled_dot_product_attention", refuse)
    rows, told = measured_attention(monkeypatch, capsys, tmp_path)
    assert all("sdpa_ms" not in row and row["tiles_ms"] > 0 for row in rows)
    assert told.count("SDPA refuses") == 2


def test_a_runtime_is_compared_with_torch_and_timed(monkeypatch, tmp_path):
    import onnx_runtime

    config, target = tmp_path / "train.yaml", tmp_path / "onnx.json"
    given = {"encoder": "srupp", "encoder_conf": {**SMALL, "num_blocks": 1}}
    config.write_text(json.dumps(given))
    words = [str(config), *"--seconds 1 --repeats 1 --json".split(), str(target)]
    monkeypatch.setattr(sys, "argv", ["onnx_runtime.py", *words])
    onnx_runtime.main()
    (row,) = json.loads(target.read_text())["rows"]
    assert row["difference"] < 1e-3
    assert row["speed"] == row["torch_ms"] / row["onnx_ms"] > 0


def test_only_attention_weights_that_are_kept_are_let_go():
    from encoder import forget

    layer = torch.nn.Module()
    layer.attn, layer.other = torch.nn.Linear(1, 1), torch.nn.Module()
    layer.other.attn = torch.ones(1)
    forget(layer)
    assert layer.other.attn is None
    assert isinstance(layer.attn, torch.nn.Linear)


def test_a_model_that_fails_at_once_is_in_the_picture(tmp_path, monkeypatch):
    from longform_picture import Figure, draw

    drawn = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *_, **__: drawn.append(figure)
    )
    done = {"computing_seconds": 1.0, "peak_bytes": 2**30}
    report = {"threads": 2, "processor": "x", "rows": []}
    for model, found in (("a", done), ("b", {"failed": "killed"})):
        report["rows"].append({"model": model, "minutes": 1.0} | found)
    draw(report, tmp_path / "x.png")
    for axes in drawn[0].axes:
        assert [line.get_marker() for line in axes.lines] == ["o", "o", "x"]
        assert [text.get_text() for text in axes.texts] == [" failed"]


def test_decodings_by_different_checkpoints_are_different_ones_in_a_study(tmp_path):
    study = import_module("study")
    parts = (
        "decode_beam3_asr_model_valid.acc.ave",
        "decode_beam3_asr_model_valid.acc.best",
    )
    found = [
        study.decoded(tmp_path, tmp_path / part / "test" / "score_wer" / "result.txt")
        for part in parts
    ]
    assert found == ["test, decode_beam3", f"test, {parts[1]}"]
