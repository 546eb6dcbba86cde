"""What ESPnet would not take is told before any data are made."""

import re
import sys
from pathlib import Path

import pytest
import torch
from data.tones import make_recipe, mistake

from espnet_srupp.recipe import arguments, asr, process, rehearsal
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout, trainings

SETS = ["--train_set", "a", "--valid_set", "b", "--test_sets", "c", "--corpus", "mini"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return make_recipe(tmp_path_factory.mktemp("root"))


def files():
    found = Path().rglob("*")
    return sorted(
        path for path in found if path.is_file() and ".locks" not in str(path)
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--asr_args", "--scheduler warmuplr --scheduler_conf warmup_step=3"],
            "there is no 'warmup_step' there: .*rehearsal/asr_train.1.log",
        ),
        (
            ["--use_lm", "true", "--inference_args", "", "--lm_args", "--max_epochs 3"],
            "there is no option --max_epochs,.*rehearsal/lm_train.log",
        ),
        (
            # without the packages that are installed
            ["--python", f"{sys.executable} -S -m espnet_srupp.run"],
            "ESPnet is not installed in this Python: .*rehearsal/asr_train.1.log",
        ),
    ],
)
def test_what_a_training_does_not_take_is_told_at_once(
    recipe, monkeypatch, capfd, words, said
):
    assert re.search(said, mistake(recipe, monkeypatch, capfd, *words))
    assert not (recipe / "dump").exists()
    # nothing but why
    assert {path.suffix for path in recipe.glob("exp/[!.]*")} == {".rehearsal"}


def test_a_rehearsal_of_what_is_right_leaves_nothing(recipe, monkeypatch, capfd):
    monkeypatch.chdir(recipe)
    # one after the other is trained, the second with the statistics that are not there
    words = ["--asr_config", "conf/train.yaml conf/b.yaml", "--asr_args", ""]
    words += ["--use_lm", "true", "--lm_config", "conf/train_lm.yaml", "--fs", "8k"]
    words += ["--longform", "2 3", "--longform_args", "--search prefix"]
    text = Path("conf/train.yaml").read_text()
    Path("conf/b.yaml").write_text(f"{text}\nnormalize: global_mvn\n")
    given = arguments.parse([*SETS, *words], Path.cwd())
    before = files()
    rehearsal.check(trainings(given), asr.chosen(given))
    assert files() == before


@pytest.mark.parametrize(
    "words",
    [
        ["--pretrained_model", "m.pth:decoder"],
        ["--asr_args", "--init_param m.pth:decoder"],
    ],
)
def test_a_model_of_which_nothing_would_be_taken_is_told_at_once(
    words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    torch.save({"encoder.x": torch.ones(1)}, "m.pth")
    monkeypatch.setattr(process, "run", lambda jobs, python: None)
    with pytest.raises(RecipeError, match="m.pth:decoder takes no parameters"):
        asr.run(arguments.parse([*SETS, *words], Path.cwd()))
    assert files() == [Path("m.pth")]


def test_a_rehearsal_that_failed_tells_why_until_one_succeeds(tmp_path, monkeypatch):
    def fail(jobs, python):
        jobs[0].log.touch()
        raise RecipeError("a wrong option")

    monkeypatch.chdir(tmp_path)
    given = arguments.parse(SETS, Path.cwd())
    exp = layout(given).exp
    monkeypatch.setattr(process, "run", fail)
    for _ in range(2):
        with pytest.raises(RecipeError, match="a wrong option"):
            rehearsal.check([given], [11])
    assert exp.with_name(f"{exp.name}.rehearsal") / "asr_train.1.log" in files()
    monkeypatch.setattr(process, "run", lambda jobs, python: None)
    rehearsal.check([given], [11])
    assert files() == []


def programs(*words):
    given = arguments.parse([*SETS, *words], Path.cwd())
    found = rehearsal.programs(trainings(given), asr.chosen(given), Path())
    return dict(found)


def test_what_is_not_to_be_done_is_not_rehearsed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert list(programs("--stop_stage", "11", "--longform", "2")) == ["asr_train.1"]
    # of a language model that is there already
    assert "lm_train" not in programs("--use_lm", "true", "--stage", "10")
    assert list(programs("--train_joined", "3")) == [
        *("asr_train.1", "asr_inference", "join")
    ]
    assert list(programs("--longform", "2", "--use_lm", "true")) == [
        *("asr_train.1", "lm_train", "asr_inference", "join", "transcribe")
    ]


def test_a_model_is_tried_with_as_many_tokens_as_it_will_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs("--nbpe", "7", "--blank", "_", "--sos_eos", "$", "--oov", "?")
    first, second, *pieces, last = Path("tokens.txt").read_text().splitlines()
    assert (first, second, last) == ("_", "?", "$")
    assert len(set(pieces)) == 7
    given = arguments.parse([*SETS, "--nbpe", "7"], Path.cwd())
    known = layout(given).token_list
    known.parent.mkdir(parents=True)
    known.touch()
    words = programs("--nbpe", "7")["asr_train.1"]
    assert words[words.index("--token_list") + 1] == str(known)


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        ("espnet2.bin.asr_inference", ["--beam_sise", "3"], "arguments: --beam_sise"),
        ("espnet_srupp.longform.transcribe", ["--serach", "x"], "arguments: --serach"),
        ("espnet_srupp.longform.transcribe", ["--search", "x"], "invalid choice: 'x'"),
        ("espnet_srupp.longform.join", ["--num-utts", "2", "--ga", "3"], "--ga"),
    ],
)
def test_a_command_line_is_read_as_its_program_does(
    program, words, said, monkeypatch, capsys
):
    ours = program.startswith("espnet_srupp")
    given = ["FROM", "TO"] if ours else ["--output_dir", "x"]
    if not ours:
        given += ["--data_path_and_name_and_type", "a,b,sound"]
    monkeypatch.setattr(sys, "argv", ["", program, *given, *words])
    with pytest.raises(SystemExit) as ended:
        rehearsal.main()
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"{program}: error: ")
    assert said in last


def test_a_training_that_has_begun_is_not_rehearsed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = arguments.parse(SETS, Path.cwd())
    monkeypatch.setattr(asr, "Locks", None)
    started = []
    monkeypatch.setattr(process, "run", lambda jobs, python: started.append(jobs))
    for _ in range(2):
        with pytest.raises(TypeError, match="NoneType"):
            asr.run(given)
        layout(given).exp.mkdir(parents=True, exist_ok=True)
    assert len(started) == 1
