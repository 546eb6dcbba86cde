"""Scores of a small set are those counted by hand, in every file."""

import csv
import json

import numpy as np
import pytest
import soundfile
from data.small_sets import POOR, TEXT, cells, score, write, write_sets

from espnet_srupp.longform import table
from espnet_srupp.longform.__main__ import main
from espnet_srupp.longform.cells import Result, Utterance, score_bin
from espnet_srupp.longform.counting import Pair, tally
from espnet_srupp.longform.resampling import FEWEST, matched_pairs
from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.table import write_table

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def folder(tmp_path):
    return write_sets(tmp_path)


def test_errors_by_length(folder):
    assert score(folder) == 0
    found = {
        key: (c.utterances, c.tokens, c.substitutions, c.deletions, c.insertions)
        for key, c in cells(folder).items()
    }
    assert found == {
        ("0-10", "good"): (1, 4, 0, 0, 0),
        ("0-10", "poor"): (1, 4, 0, 0, 0),
        ("10-20", "good"): (2, 7, 0, 0, 0),
        ("10-20", "poor"): (2, 7, 1, 1, 1),
        ("40+", "good"): (1, 3, 0, 0, 0),
        ("40+", "poor"): (1, 3, 0, 3, 0),
        ("all", "good"): (4, 14, 0, 0, 0),
        ("all", "poor"): (4, 14, 1, 4, 1),
    }
    poor = cells(folder)["10-20", "poor"]
    assert poor.rate == 100 * 3 / 7
    assert poor.seconds == 12.75
    assert cells(folder)["all", "poor"].rate == 100 * 6 / 14


def test_characters_have_their_own_table(folder):
    assert score(folder) == 0
    # A_B_C_D_E and A_A: X for B, then _E deleted; _A inserted
    poor = cells(folder, "cer")["10-20", "poor"]
    assert (poor.tokens, poor.substitutions, poor.deletions) == (12, 1, 2)
    assert poor.insertions == 2


def test_case_counts_on_request(folder):
    assert score(folder, "--case") == 0
    assert cells(folder)["0-10", "poor"].substitutions == 4


def test_loops_are_told(folder):
    write(folder / "poor" / "text", {**POOR, "u4": "X Y X Y X Y"})
    assert score(folder) == 0
    # of six words X Y comes twice too often
    assert cells(folder)["40+", "poor"].repeated == 4
    assert "| 66.67 |" in (folder / "out" / "scores.md").read_text()
    # A A A is no loop yet
    assert cells(folder)["10-20", "poor"].repeated == 0


def test_models_are_compared_in_pairs(folder):
    assert score(folder) == 0
    found = table.read(folder / "out" / "scores.json").differences
    first, second, third, everything = (d for d in found if d.unit == "wer")
    assert (first.bin, first.first, first.second) == ("0-10", "good", "poor")
    assert (first.difference, first.p, first.low) == (0, 1, None)
    assert (second.difference, second.p) == (-100 * 3 / 7, 0.5)
    assert (third.difference, third.p) == (-100, 1)
    # errors 0, 2, 1, 3 in four recordings: all three one way or all the other
    assert everything.p == 2 / 8


def test_intervals_of_few_recordings_are_not_made_up(folder):
    assert score(folder) == 0
    assert {cell.low for cell in cells(folder).values()} == {None}
    text = (folder / "out" / "scores.md").read_text()
    assert "| not known |" in text and "with fewer than 6" in text


def test_p_of_few_recordings_is_told_to_say_nothing(folder):
    assert score(folder) == 0
    text = (folder / "out" / "scores.md").read_text()
    assert "with fewer than 6 it is above 0.06" in text
    # of as many as that, all for one model
    p = [matched_pairs(np.full(n, 9), 1000, 0) for n in (FEWEST - 1, FEWEST)]
    assert p[0] > 0.06 > 0.05 > p[1]


@pytest.mark.parametrize("sources", [1, 2, 5, 6])
def test_six_speakers_or_recordings_have_an_interval(sources):
    said = {"good": "A B", "poor": "A"}
    results = {
        model: Result(tally(Pair("A B", text, False)), None)
        for model, text in said.items()
    }
    # of two utterances each, which count for no more than one would
    some = [Utterance(f"{n // 2}", 1.0, results) for n in range(2 * sources)]
    (good, poor), (difference,) = score_bin("wer", "all", some, 100, 0)
    known = sources == 6
    # nobody never errs
    assert (good.low, good.high) == (None, None)
    assert (poor.low, poor.high) == ((50, 50) if known else (None, None))
    found = (difference.low, difference.high)
    assert found == ((-50, -50) if known else (None, None))


def test_recordings_are_drawn_not_segments(folder):
    segments = {u: ("talk", n, n + 1.0) for n, u in enumerate(TEXT)}
    data = DataDir({"talk": "x.wav"}, TEXT, dict.fromkeys(TEXT, "s"), segments)
    (folder / "ref" / "segments").unlink(missing_ok=True)
    datadir.write(data, folder / "ref")
    samples = {u: 1000 for u in TEXT}
    write_table(samples, folder / "ref" / "utt2num_samples")
    assert score(folder) == 0
    cell = cells(folder)["all", "poor"]
    assert (cell.sources, cell.utterances, cell.low) == (1, 4, None)


def test_speakers_are_drawn_where_there_are_some(folder):
    write_table(dict(zip(TEXT, "aabc", strict=True)), folder / "ref" / "utt2spk")
    assert score(folder) == 0
    found = {bin_: cell.sources for (bin_, _), cell in cells(folder).items()}
    assert found == {"0-10": 1, "10-20": 2, "40+": 1, "all": 3}


def test_a_bin_is_scored_without_a_model_that_has_none_of_it(folder, capsys):
    write(folder / "poor" / "text", {u: POOR[u] for u in ("u1", "u2")})
    assert score(folder) == 1
    assert "u3, u4 are not in" in capsys.readouterr().err
    found = {key: (c.utterances, c.tokens) for key, c in cells(folder).items()}
    assert found == {
        ("0-10", "good"): (1, 4),
        ("0-10", "poor"): (1, 4),
        # u3 is not compared
        ("10-20", "good"): (1, 5),
        ("10-20", "poor"): (1, 5),
        ("40+", "good"): (1, 3),
        ("all", "good"): (2, 9),
        ("all", "poor"): (2, 9),
    }


def test_a_bin_that_no_model_has_decoded_is_left_out(folder):
    for model, text in (("good", TEXT), ("poor", POOR)):
        write(folder / model / "text", {u: text[u] for u in ("u1", "u2", "u3")})
    assert score(folder) == 1
    found = {bin_: cell.utterances for (bin_, _), cell in cells(folder).items()}
    assert found == {"0-10": 1, "10-20": 2, "all": 3}


def test_a_bin_of_which_no_utterance_is_every_model_s_is_left_out(folder):
    for model, text, missing in (("good", TEXT, "u2"), ("poor", POOR, "u3")):
        write(folder / model / "text", {u: text[u] for u in TEXT if u != missing})
    assert score(folder) == 1
    found = {bin_: cell.utterances for (bin_, _), cell in cells(folder).items()}
    assert found == {"0-10": 1, "40+": 1, "all": 2}


def test_results_of_something_else_are_told(folder, capsys):
    for model in ("good", "poor"):
        write(folder / model / "text", {"x": "A"})
    assert score(folder) == 1
    assert "is in the results of any model" in capsys.readouterr().err


def test_recordings_without_a_segment_are_not_looked_at(folder):
    segments = {u: ("talk", n, n + 1.0) for n, u in enumerate(TEXT)}
    soundfile.write(folder / "talk.wav", np.zeros(8000 * len(TEXT)), 8000)
    wav = {"talk": str(folder / "talk.wav")}
    datadir.write(DataDir(wav, TEXT, dict.fromkeys(TEXT, "s"), segments), folder / "r")
    others = {"aa": "sox none.wav -t wav - |", "zz": "gone.wav"}
    write_table(wav | others, folder / "r" / "wav.scp")
    assert main(["score", str(folder / "r"), f"a={folder / 'r'}"]) == 0


def test_files_agree_and_are_the_same_each_time(folder, capsys, processes):
    assert score(folder, "--nj", "1") == 0
    made = {p.name: p.read_bytes() for p in (folder / "out").iterdir()}
    assert sorted(made) == ["differences.csv", "scores.csv", "scores.json", "scores.md"]
    # the table alone goes to standard output
    assert capsys.readouterr().out == made["scores.md"].decode() + "\n"
    with open(folder / "out" / "scores.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    given = json.loads(made["scores.json"])["cells"]
    assert len(rows) == len(given) == 16
    for row, cell in zip(rows, given, strict=True):
        assert row == {k: "" if v is None else str(v) for k, v in cell.items()}
    assert score(folder, "--nj", "2") == 0
    assert {p.name: p.read_bytes() for p in (folder / "out").iterdir()} == made


def test_a_bin_depends_on_no_other_bin(folder):
    assert score(folder) == 0
    before = cells(folder)["10-20", "poor"]
    write(folder / "poor" / "text", {**POOR, "u1": "X", "u4": "X Y Z"})
    assert score(folder) == 0
    assert cells(folder)["10-20", "poor"] == before


def test_bins_begin_at_0_in_any_case(folder):
    assert score(folder, "--bins", "12") == 0
    assert [bin_ for bin_, model in cells(folder) if model == "good"] == [
        *("0-12", "12+", "all")
    ]


def test_bins_may_begin_at_parts_of_a_second(folder):
    assert score(folder, "--bins", "4.5,5,5.5") == 0
    found = {b: c.utterances for (b, model), c in cells(folder).items() if "g" in model}
    assert found == {"5-5.5": 1, "5.5+": 3, "all": 4}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--bins", "10,5"], "--bins 10,5 are not rising"),
        (["--bins", "0,10,10"], "--bins 0,10,10 are not rising"),
        (["--bins=-5,10"], "--bins -5,10 are not rising"),
        (["--bins", "0,nan"], "--bins 0,nan are not rising"),
        (["--bins", "0,x"], "--bins 0,x are not rising"),
        (["--bins", "0,inf"], "--bins 0,inf are not rising"),
        (["--bins", ""], "are not rising numbers of seconds"),
        (["--samples", "0"], "--samples 0 is not 1 or more"),
        (["--seed", "-1"], "--seed -1 is not 0 or more"),
        (["--fs", "0"], "--fs 0 is not 1 or more"),
        (["--nj", "0"], "--nj 0 is not 1 or more"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_options_are_told(folder, capsys, words, sentence):
    assert score(folder, *words) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("inside", [0, 1], ids=["model", "current-folder"])
def test_a_name_that_files_could_not_hold_is_told_first(
    folder, monkeypatch, capsys, inside
):
    reference = (folder / "ref").rename(folder / ("\udce9" if inside else "ref"))
    monkeypatch.chdir(reference)
    model = "good" if inside else "\udce9"
    words = [".", f"{model}={folder / 'good'}", "--out", str(folder / "out")]
    assert main(["score", *words]) == 1
    assert "\\udce9 is not UTF-8: rename it" in capsys.readouterr().err
    assert not (folder / "out" / "scores.md").exists()


def test_a_folder_that_cannot_be_made_is_told(folder, capsys):
    (folder / "out").touch()
    assert score(folder) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and str(folder / "out") in error


def test_no_command_is_told(capsys):
    assert main([]) == 1
    assert "the following arguments are required: COMMAND" in capsys.readouterr().err


def test_speakers_are_drawn_and_not_recordings_of_segments(folder):
    segments = {u: (f"talk{n % 2}", n, n + 1.0) for n, u in enumerate(TEXT)}
    speakers = dict(zip(TEXT, "aabc", strict=True))
    wav = {"talk0": "x.wav", "talk1": "y.wav"}
    datadir.write(DataDir(wav, TEXT, speakers, segments), folder / "ref")
    write_table(dict.fromkeys(TEXT, 1000), folder / "ref" / "utt2num_samples")
    assert score(folder) == 0
    assert cells(folder)["all", "poor"].sources == 3


def test_what_was_asked_for_is_in_the_scores(folder):
    assert score(folder, "--seed", "3", "--samples", "99", "--case") == 0
    settings = table.read(folder / "out" / "scores.json").settings
    assert {**settings, "seed": 3, "samples": 99, "case": True} == settings
    assert settings["models"]["good"] == str(folder / "good" / "text")


def read_markdown(path):
    """Rows of each table below a heading, as dictionaries."""
    found = {}
    for part in path.read_text().split("\n#")[1:]:
        title, *lines = part.strip("# \n").splitlines()
        head, _, *rows = (x.strip("| ").split(" | ") for x in lines if x[:1] == "|")
        found[title] = [dict(zip(head, row, strict=True)) for row in rows]
    return found


def test_each_unit_has_its_own_tables_to_read(folder):
    assert score(folder) == 0
    found = read_markdown(folder / "out" / "scores.md")
    assert {title: len(rows) for title, rows in found.items()} == {
        **{"WER": 8, "WER, models compared": 4},
        **{"CER": 8, "CER, models compared": 4},
    }
    assert [
        found[unit][2][name] for unit, name in (("WER", "words"), ("CER", "characters"))
    ] == ["7", "12"]


def test_a_model_alone_is_compared_with_none(folder):
    words = [str(folder / "ref"), f"good={folder / 'good'}", "--fs", "1000"]
    assert main(["score", *words, "--out", str(folder / "out")]) == 0
    assert [*read_markdown(folder / "out" / "scores.md")] == ["WER", "CER"]


def test_columns_are_those_of_the_head(folder):
    write_table(dict(zip(TEXT, "aabc", strict=True)), folder / "ref" / "utt2spk")
    assert score(folder) == 0
    told = read_markdown(folder / "out" / "scores.md")["WER"][-1]
    assert told == {
        **{"bin": "all", "mean seconds": "18.9", "speakers or recordings": "3"},
        **{"utterances": "4", "words": "14", "model": "poor", "WER": "42.86"},
        **{"95 % interval": "not known", "Sub": "7.14", "Del": "28.57", "Ins": "7.14"},
        **{"repeated": "0.00", "real-time factor": "not logged"},
        "peak memory": "not logged",
    }


def test_bounds_of_a_difference_have_signs():
    item = table.Difference("wer", "all", "a", "b", 1.0, -0.5, 2.5, 0.25)
    *_, row = table.difference_table([item], "wer").splitlines()
    assert row == "| all | a - b | +1.00 | -0.50 to +2.50 | 0.2500 |"
