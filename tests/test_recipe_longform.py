"""Stage 15 joins, transcribes, scores and draws; what is finished stays finished."""

import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_srupp.longform import table
from espnet_srupp.recipe import asr, datadir, longform
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options

pytestmark = pytest.mark.once

RATE = 1000
# three words each, of two speakers; ids are those of AN4
TEXT = {
    f"{speaker}-an{n}-b": words
    for speaker, n, words in (
        *(("fcaw", 1, "A B C"), ("fcaw", 2, "D E F")),
        *(("mjwl", 3, "A A B"), ("mjwl", 4, "C D D")),
    )
}
# stands in for ESPnet: loses the last word of each recording, but is good at `good`
TRANSCRIBE = """
import argparse, json, sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("-m")
for name in ("command", "exp", "reference"):
    parser.add_argument(name, type=Path)
for name in ("--out", "--checkpoint", "--device", "--search", "--lm"):
    parser.add_argument(name)
parser.add_argument("--beam-size")
parser.add_argument("--force", action="store_true")
given = parser.parse_args()
assert given.m == "espnet_srupp.longform.__main__"
assert str(given.command) == "transcribe" and given.device == "cpu"
with open("calls", "a") as file:
    told = given.search, given.force, *([given.lm] if given.lm else [])
    print(given.exp.name, given.reference.name, *told, file=file)
if (given.exp / "broken").exists():
    sys.exit("error: the model is broken: mend it")
lines = (given.reference / "text").read_text().splitlines()
if given.exp.name != "good":
    lines = [line.rpartition(" ")[0] for line in lines]
out = Path(given.out)
out.mkdir(parents=True, exist_ok=True)
(out / "text").write_text("".join(f"{line}\\n" for line in lines))
used = {"audio_seconds": 10, "computing_seconds": 1, "peak_bytes": 1000000000}
logged = [json.dumps({"utterance": line.split()[0], **used}) for line in lines]
(out / "longform.jsonl").write_text("\\n".join(logged) + "\\n")
print("INFO of ESPnet")
print(f"  transcribing: {len(lines)}/{len(lines)} recordings")
"""
OPTIONS = [
    *("--corpus", "mini", "--train_set", "train", "--valid_set", "dev"),
    *("--test_sets", "test", "--fs", "1k", "--nj", "1", "--asr_exp", "exp/own"),
    *("--stage", "15"),
]


def experiment(folder, encoder):
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"encoder: {encoder}\n")
    (folder / "valid.acc.ave.pth").touch()


def run(*words, factors="1 2"):
    python = f"{shlex.quote(sys.executable)} fake.py"
    return asr.main([*OPTIONS, "--python", python, "--longform", factors, *words])


def calls():
    """What was transcribed since the last look.

    Model, reference, --search, --force, and --lm where there is one.
    """
    path = Path("calls")
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A recipe's folder with a formatted test set, two experiments and stage 15."""
    recipe = tmp_path_factory.mktemp("finished")
    (recipe / "wav").mkdir()
    random = np.random.default_rng(0)
    for n, utterance in enumerate(TEXT):
        samples = random.integers(-99, 99, (n + 1) * RATE, "int16")
        soundfile.write(recipe / "wav" / f"{utterance}.flac", samples, RATE)
    wav = {utterance: f"wav/{utterance}.flac" for utterance in TEXT}
    speakers = {utterance: utterance[:4] for utterance in TEXT}
    datadir.write(DataDir(wav, TEXT, speakers), recipe / "dump/raw/test")
    experiment(recipe / "exp/own", "srupp")
    experiment(recipe / "exp/good", "conformer")
    (recipe / "fake.py").write_text(TRANSCRIBE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(recipe)
        assert run("--longform_models", "conformer=exp/good") == 0
    return recipe


def touch_pictures(target):
    for name in longform.PICTURES:
        (target / name).touch()


@pytest.fixture
def recipe(finished, tmp_path, monkeypatch):
    """A copy to work in."""
    shutil.copytree(finished, tmp_path / "recipe")
    # seconds for each, and drawn once by `finished`
    monkeypatch.setattr(longform, "draw", touch_pictures)
    monkeypatch.chdir(tmp_path / "recipe")
    return tmp_path / "recipe"


RESULTS = "exp/own/longform/test"


@pytest.mark.parametrize(
    "path",
    [
        *("dump/raw/test_long/1x/wav.scp", "dump/raw/test_long/2x/provenance.csv"),
        *(f"{RESULTS}/1x/{model}/text" for model in ("srupp", "conformer")),
        *(f"{RESULTS}/2x/{model}/longform.jsonl" for model in ("srupp", "conformer")),
        *(f"{RESULTS}/{name}" for name in longform.SCORES),
        *(f"{RESULTS}/{name}" for name in longform.PICTURES),
    ],
)
def test_everything_is_beside_the_model(finished, path):
    assert (finished / path).stat().st_size > 0


def test_each_number_of_utterances_is_a_bin(finished):
    scores = table.read(finished / RESULTS / "scores.json")
    found = {
        (c.bin, c.model): (c.sources, c.seconds, c.tokens, c.deletions)
        for c in scores.cells
        if c.unit == "wer"
    }
    # a word lost of each recording; as many words however they are joined
    assert found == {
        ("1x", "srupp"): (2, 2.5, 12, 4),
        ("1x", "conformer"): (2, 2.5, 12, 0),
        ("2x", "srupp"): (2, 5, 12, 2),
        ("2x", "conformer"): (2, 5, 12, 0),
    }
    assert {c.real_time_factor for c in scores.cells} == {0.1}
    assert not scores.left_out


def test_nothing_is_done_twice_and_the_table_is_printed_again(recipe, capsys):
    calls()
    assert run("--longform_models", "conformer=exp/good") == 0
    printed = capsys.readouterr().out
    steps = [line for line in printed.splitlines() if "] stage" in line]
    assert len(steps) == 8
    assert all(line.endswith("done before") for line in steps)
    assert calls() == []
    rows = [line for line in printed.splitlines() if line.startswith("| 2x |")]
    assert len(rows) == 3
    assert rows[0].startswith("| 2x | 5.0 | 2 | 2 | 12 | srupp | 16.67 |")
    assert rows[1].startswith("| 2x | 5.0 | 2 | 2 | 12 | conformer | 0.00 |")
    assert rows[2].startswith("| 2x | srupp - conformer | +16.67 |")
    assert "characters" not in printed


def test_a_new_number_and_a_new_model_cost_their_own_work_only(recipe, capsys):
    experiment(recipe / "exp/third", "transformer")
    calls()
    models = "conformer=exp/good third=exp/third"
    words = ["--longform_join_args", "--group '()'"]
    assert run("--longform_models", models) == 0
    assert calls() == ["third 1x None False", "third 2x None False"]
    printed = capsys.readouterr().out
    assert "  transcribing: 4/4 recordings\n" in printed and "INFO" not in printed
    assert run(*words, factors="2 4") == 0
    assert calls() == ["own 2x None False", "own 4x None False"]
    cells = table.read(recipe / RESULTS / "scores.json").cells
    assert {cell.bin for cell in cells} == {"2x", "4x"}


def test_options_reach_transcribe_and_its_results_are_made_again(recipe, capsys):
    calls()
    assert run("--longform_args", "--search prefix", factors="2") == 0
    assert calls() == ["own 2x prefix False"]
    assert "as longform_args was not set, is --search prefix" in capsys.readouterr().out
    words = ["--longform_args", "--search prefix", "--force", "true"]
    assert run(*words, factors="2") == 0
    assert calls() == ["own 2x prefix True"]


@pytest.mark.parametrize("search", ["joint", "prefix"])
def test_all_but_greedy_take_the_language_model(recipe, capsys, search):
    lm = recipe / "exp/lm"
    lm.mkdir()
    for name in ("config.yaml", "valid.loss.ave.pth"):
        (lm / name).touch()
    calls()
    words = ["--use_lm", "true", "--lm_exp", "exp/lm"]
    assert run(*words, factors="2") == 0
    assert calls() == []
    words += ["--longform_args", f"--beam-size=2 --search={search}"]
    assert run(*words, factors="2") == run(*words, factors="2") == 0
    assert calls() == [f"own 2x {search} False exp/lm/valid.loss.ave.pth"]
    (lm / "valid.loss.ave.pth").write_text("another")
    assert run(*words, factors="2") == 0
    assert calls() == [f"own 2x {search} False exp/lm/valid.loss.ave.pth"]
    (lm / "valid.loss.ave.pth").unlink()
    assert run(*words, factors="2") == 1
    assert "exp/lm/valid.loss.ave.pth is not there" in capsys.readouterr().err


def test_other_audio_is_joined_and_transcribed_again(recipe):
    calls()
    path = recipe / "wav" / "fcaw-an1-b.flac"
    soundfile.write(path, np.zeros(7 * RATE), RATE)
    assert run(factors="2") == 0
    assert calls() == ["own 2x None False"]
    cells = table.read(recipe / RESULTS / "scores.json").cells
    assert {cell.seconds for cell in cells} == {8}


def test_what_a_model_cannot_transcribe_does_not_end_the_stage(recipe, capsys):
    fake = (recipe / "fake.py").read_text()
    (recipe / "fake.py").write_text(
        fake.replace(
            "out = Path(given.out)",
            "failed = [lines.pop()] if given.exp.name == 'good' else []\n"
            "out = Path(given.out)",
        )
        + 'if failed:\n    sys.exit("error: x needs more memory: cut it")\n'
    )
    shutil.rmtree(recipe / RESULTS)
    assert run("--longform_models", "conformer=exp/good", factors="2") == 0
    printed = capsys.readouterr().out
    assert "x needs more memory: cut it (log: " in printed
    assert "mjwl-long0001 is not in exp/own/longform/test/2x/conformer/text" in printed
    cells = table.read(recipe / RESULTS / "scores.json").cells
    assert {(cell.model, cell.utterances) for cell in cells} == {
        *(("srupp", 1), ("conformer", 1))
    }


def no_checkpoint(recipe):
    (recipe / "exp/good/valid.acc.ave.pth").unlink()


def broken(recipe):
    (recipe / "exp/good/broken").touch()
    shutil.rmtree(recipe / RESULTS)


def untrained(recipe):
    (recipe / "exp/own/config.yaml").unlink()


def unknown_ids(recipe):
    for name in ("wav.scp", "text", "utt2spk"):
        path = recipe / "dump/raw/test" / name
        path.write_text(path.read_text().replace("fcaw-an1-b ", "fcaw-1-b "))


def no_test_set(recipe):
    shutil.rmtree(recipe / "dump/raw/test")


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        (None, ["--longform", "1 two"], "--longform takes positive numbers, not"),
        (None, ["--longform", ""], "stage 15 needs --longform"),
        (None, ["--longform", "1 3"], "dump/raw/test has no 3 utterances that belong"),
        (None, ["--longform_models", "a=exp/no"], "exp/no: there is no such folder"),
        (None, ["--longform_models", "srupp=exp/good"], "has a srupp as well: name"),
        (no_checkpoint, [], "exp/good/valid.acc.ave.pth is not there"),
        (untrained, [], "exp/own/config.yaml is not there: train the model"),
        (broken, [], "error: the model is broken: mend it (log: exp/own/longform/"),
        (unknown_ids, [], "--longform_join_args \"--group '()'\""),
        (no_test_set, [], "needs dump/raw/test/wav.scp, which is not there"),
        (None, ["--longform_join_args", "--gap x"], "argument --gap: invalid float"),
    ],
)
def test_a_mistake_is_one_sentence(recipe, capfd, change, words, said):
    if change:
        change(recipe)
    if "--longform_models" not in words:
        words = [*words, "--longform_models", "conformer=exp/good"]
    assert run(*words) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: ") and said in line
    assert "error: error:" not in line


def test_too_small_a_set_is_told_before_anything_is_transcribed(recipe):
    calls()
    shutil.rmtree(recipe / RESULTS)
    assert run(factors="1 2 3") == 1
    assert calls() == []


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("", ["srupp"]),
        ("b=exp/good", ["srupp", "b"]),
        # named by the user, in the user's order
        ("b=exp/good mine=exp/own", ["b", "mine"]),
    ],
)
def test_models_are_called_as_their_encoder_or_as_one_likes(recipe, given, names):
    sets = {"train_set": "a", "valid_set": "b", "test_sets": "c"}
    options = Options(**sets, asr_exp="exp/own", longform_models=given)
    found = longform.models(options, layout(options))
    assert list(found) == names
    assert found[names[-1]].name == ("own" if "mine" in names or not given else "good")
