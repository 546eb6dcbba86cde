"""Which references and results are compared, and which are missing or wrong."""

import pytest
from data.small_sets import POOR, TEXT, cells, score, write, write_sets

from espnet_srupp.longform import sets, table
from espnet_srupp.longform.__main__ import main
from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.table import write_table

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def folder(tmp_path):
    return write_sets(tmp_path)


def test_several_references_are_bins_of_their_own(folder, capsys):
    # the same ids as in the other one, joined
    joined = {"u1": "A B C D A B C D E", "u2": "A A X Y Z"}
    wav = {u: f"{u}.flac" for u in joined}
    data = DataDir(wav, joined, dict.fromkeys(joined, "s"))
    datadir.write(data, folder / "pairs")
    write_table({"u1": 15000, "u2": 60500}, folder / "pairs/utt2num_samples")
    write(folder / "pairs_good" / "text", joined)
    write(folder / "pairs_poor" / "text", {"u1": "A B C D", "u2": "A A"})
    words = ["score", str(folder / "ref"), f"good={folder / 'good'}"]
    words += [f"poor={folder / 'poor'}", str(folder / "pairs")]
    words += [f"{model}={folder / f'pairs_{model}'}" for model in ("good", "poor")]
    out = ["--out", str(folder / "out"), "--fs", "1000", "--samples", "200"]
    assert main([*words, *out]) == 0
    found = {
        key: (c.utterances, c.tokens, c.seconds, c.substitutions + c.deletions)
        for key, c in cells(folder).items()
    }
    # no "all": it would count the same words twice
    assert found == {
        ("ref", "good"): (4, 14, 18.875, 0),
        ("ref", "poor"): (4, 14, 18.875, 5),
        ("pairs", "good"): (2, 14, 37.75, 0),
        ("pairs", "poor"): (2, 14, 37.75, 8),
    }
    scores = table.read(folder / "out" / "scores.json")
    assert scores.settings["reference"] == f"{folder / 'ref'}, {folder / 'pairs'}"
    assert {d.bin for d in scores.differences} == {"ref", "pairs"}
    assert "| pairs | 37.8 | 2 | 2 | 14 | poor |" in capsys.readouterr().out


def test_missing_and_unknown_results_are_named_and_the_rest_scored(folder, capsys):
    kept = {u: POOR[u] for u in ("u1", "u3", "u4")}
    write(folder / "poor" / "text", {**kept, "v1": "A", "v2": "", "v3": "", "v4": ""})
    assert score(folder) == 1
    missing, unknown = (
        line for line in capsys.readouterr().err.splitlines() if "error" in line
    )
    text = folder / "poor" / "text"
    assert missing.startswith(f"error: u2 is not in {text}: decode again")
    assert unknown.startswith(f"error: v1, v2, v3 and 1 more are in {text} and not in")
    found = cells(folder)
    assert found["10-20", "good"].tokens == found["10-20", "poor"].tokens == 2
    assert "**Left out:** u2 is not in" in (folder / "out" / "scores.md").read_text()


def test_an_empty_file_of_results_is_said_to_lack_all(folder, capsys):
    (folder / "poor" / "text").write_text("")
    assert score(folder) == 1
    assert "u1, u2, u3 and 1 more are not in" in capsys.readouterr().err
    assert {model for _, model in cells(folder)} == {"good"}


def test_a_reference_may_be_given_from_within(folder, monkeypatch):
    monkeypatch.chdir(folder / "ref")
    found = sets.read([".", "x=../good", "../good/..", "x=../poor"])
    assert [each.reference.name for each in found] == ["ref", folder.name]


def test_a_single_reference_is_no_bin_and_may_have_any_name(folder):
    (folder / "a|b").mkdir()
    for name in ("a|b", "all"):
        (each,) = sets.read([str(folder / name), f"x={folder / 'good'}"])
        assert each.reference == folder / name


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (["poor="], "'poor=' is not MODEL=RESULTS"),
        (["poor"], "no MODEL=RESULTS follows ref"),
        (["x=good", "poor"], "no MODEL=RESULTS follows poor"),
        (["x=good", "ref", "x=poor"], "two references are called ref"),
        (["x=good", "a/all", "x=poor"], "a/all has the name of the bin of all"),
        (["x=good", "b|c", "x=poor"], "b|c has a |, which tables do not show"),
        (["x=good", "other", "y=poor"], "other has results of y, and ref of x: give"),
        (["x=good", "other", "x=poor", "--bins", "1"], "--bins is for a single REF"),
        (["x=poor", "x=good"], "the model x is there twice"),
        (["_x=poor"], "the model _x begins with _ or has a |"),
        (["x|y=poor"], "the model x|y begins with _ or has a |"),
        (["x=poor", "--out", "ref/text"], "--out ref/text cannot be written to"),
        (["x=nowhere"], "nowhere is missing"),
        ([], "no MODEL=RESULTS follows ref"),
    ],
)
def test_wrong_models_are_told(folder, capsys, monkeypatch, models, sentence):
    monkeypatch.chdir(folder)
    assert main(["score", "ref", *models]) == 1
    assert sentence in capsys.readouterr().err


def test_a_missing_transcript_is_named(folder, capsys):
    write(folder / "ref" / "text", {u: TEXT[u] for u in ("u1", "u2", "u3")})
    assert score(folder) == 1
    assert "u4 is in wav.scp and not in text" in capsys.readouterr().err


def test_an_equals_sign_in_the_path_of_a_reference_is_no_model(tmp_path):
    for name in ("day=1/1x", "day=1/3x", "exp"):
        write(tmp_path / name / "text", {"u1": "A"})
    words = ["day=1/1x", "m=exp", "day=1/3x", "m=exp"]
    words = [word.replace("day", f"{tmp_path}/day") for word in words]
    found = sets.read([w.replace("exp", str(tmp_path / "exp")) for w in words])
    assert [each.reference.name for each in found] == ["1x", "3x"]
