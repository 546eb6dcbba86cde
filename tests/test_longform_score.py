"""Scores of a small set are those counted by hand, in every file."""

import csv
import json

import numpy as np
import pytest
import soundfile

from espnet_srupp.longform import lengths, table
from espnet_srupp.longform.__main__ import main
from espnet_srupp.longform.cells import Result, Utterance, score_bin
from espnet_srupp.longform.counting import Pair, tally
from espnet_srupp.recipe import datadir
from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.table import write_table

TEXT = {"u1": "A B C D", "u2": "A B C D E", "u3": "A A", "u4": "X Y Z"}
SECONDS = {"u1": 5, "u2": 10, "u3": 15.5, "u4": 45}
# a substitution and a deletion, an insertion, three deletions
POOR = {"u1": "a b c d", "u2": "A X C D", "u3": "A A A", "u4": ""}
WORDS = ["--bins", "0,10,20,40", "--fs", "1000", "--samples", "200"]


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key} {value}\n" for key, value in table.items()))
    return path


@pytest.fixture
def folder(tmp_path):
    wav = {u: f"{u}.flac" for u in TEXT}
    datadir.write(DataDir(wav, TEXT, dict.fromkeys(TEXT, "s")), tmp_path / "ref")
    samples = {u: round(1000 * s) for u, s in SECONDS.items()}
    write_table(samples, tmp_path / "ref" / "utt2num_samples")
    write(tmp_path / "good" / "text", TEXT)
    write(tmp_path / "poor" / "text", POOR)
    return tmp_path


@pytest.fixture(autouse=True)
def in_process(request, monkeypatch):
    """Spares the start of processes, but where a test is marked to need them."""
    if "processes" not in request.fixturenames:
        monkeypatch.setattr(
            "espnet_srupp.longform.score.parallel_map",
            lambda function, jobs, *_: [function(job) for job in jobs],
        )


@pytest.fixture
def processes():
    """Marks a test that needs them."""


def score(folder, *words):
    models = [f"good={folder / 'good'}", f"poor={folder / 'poor/text'}"]
    out = ["--out", str(folder / "out")]
    return main(["score", str(folder / "ref"), *models, *out, *WORDS, *words])


def cells(folder, unit="wer"):
    scores = table.read(folder / "out" / "scores.json")
    return {(c.bin, c.model): c for c in scores.cells if c.unit == unit}


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


def test_repeated_ngrams(folder):
    write(folder / "poor" / "text", {**POOR, "u4": "X Y X Y X Y"})
    assert score(folder, "--ngram", "2") == 0
    poor = cells(folder)["40+", "poor"]
    # X Y three times and Y X twice
    assert (poor.ngrams, poor.repeated) == (5, 3)
    # what the reference says once more is one A A too many
    assert cells(folder)["10-20", "poor"].repeated == 1


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
    assert "| too few recordings |" in text and "with fewer than 6" in text


@pytest.mark.parametrize("recordings", [1, 2, 5, 6])
def test_six_recordings_have_an_interval(recordings):
    said = {"good": "A B", "poor": "A"}
    results = {
        model: Result(tally(Pair("A B", text, 3, False)), None)
        for model, text in said.items()
    }
    some = [Utterance(f"{n}", 1.0, results) for n in range(recordings)]
    (_, poor), (difference,) = score_bin("wer", "all", some, 100, 0)
    known = recordings == 6
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
    assert (cell.recordings, cell.utterances, cell.low) == (1, 4, None)


def log(folder, seconds, peaks):
    lines = [
        json.dumps(
            {
                "utterance": u,
                "audio_seconds": SECONDS[u],
                "computing_seconds": seconds[u],
                "peak_bytes": peaks[u],
            }
        )
        for u in seconds
    ]
    (folder / "good" / "longform.jsonl").write_text("\n".join(lines) + "\n")


def test_real_time_factor_and_memory_where_they_were_logged(folder):
    log(
        folder,
        {"u1": 1, "u2": 1, "u3": 4.1, "u4": 9},
        {"u1": 5e8, "u2": 1_000_000_000, "u3": 2_500_000_000, "u4": None},
    )
    assert score(folder) == 0
    found = cells(folder)
    assert found["0-10", "good"].real_time_factor == 0.2
    assert found["10-20", "good"].real_time_factor == 5.1 / 25.5
    assert found["10-20", "good"].peak_bytes == 2_500_000_000
    assert found["40+", "good"].real_time_factor == 0.2
    assert found["40+", "good"].peak_bytes is None
    assert found["10-20", "poor"].real_time_factor is None
    text = (folder / "out" / "scores.md").read_text()
    assert "| 0.200 | 2.50 GB |" in text
    assert "| not logged | not logged |" in text


def test_part_of_a_log_does_not_speak_for_the_bin(folder):
    log(folder, {"u2": 1}, {"u2": 1})
    assert score(folder) == 0
    assert cells(folder)["10-20", "good"].real_time_factor is None


def logged(audio=1, computing=1, peak="null"):
    return (
        f'{{"utterance": "u1", "audio_seconds": {audio}, "computing_seconds": '
        f'{computing}, "peak_bytes": {peak}}}'
    )


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{}",
        "[]",
        "\xff",
        logged(audio=0),
        logged(audio="NaN"),
        logged(audio="Infinity"),
        logged(computing="NaN"),
        logged(peak="Infinity"),
    ],
)
def test_a_bad_log_is_named(folder, capsys, line):
    (folder / "good" / "longform.jsonl").write_text(line, encoding="latin-1")
    assert score(folder) == 1
    assert "longform.jsonl line 1 does not tell utterance" in capsys.readouterr().err


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
    assert missing.startswith(f"error: u2 is not in {text}: left out for all models")
    assert unknown.startswith(f"error: v1, v2, v3 and 1 more are in {text} and not in")
    found = cells(folder)
    assert found["10-20", "good"].tokens == found["10-20", "poor"].tokens == 2
    assert "**Left out:** u2 is not in" in (folder / "out" / "scores.md").read_text()


def test_an_empty_file_of_results_is_said_to_lack_all(folder, capsys):
    (folder / "poor" / "text").write_text("")
    assert score(folder) == 1
    assert "is in the results of all models" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--bins", "10,5"], "--bins 10,5 are not rising"),
        (["--bins", "0,x"], "--bins 0,x are not rising"),
        (["--bins", ""], "are not rising numbers of seconds"),
        (["--ngram", "0"], "--ngram 0 is not 1 or more"),
        (["--seed", "-1"], "--seed -1 is not 0 or more"),
        (["--fs", "0"], "--fs 0 is not 1 or more"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_options_are_told(folder, capsys, words, sentence):
    assert score(folder, *words) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (["poor="], "'poor=' is not MODEL=RESULTS"),
        (["poor"], "no MODEL=RESULTS follows ref"),
        (["x=good", "poor"], "no MODEL=RESULTS follows poor"),
        (["x=good", "ref", "x=poor"], "two references are called ref"),
        (["x=good", "a/all", "x=poor"], "a/all has the name of the bin of all"),
        (["x=good", "other", "y=poor"], "other has results of y, and ref of x: give"),
        (["x=good", "other", "x=poor", "--bins", "1"], "--bins is for a single REF"),
        (["x=poor", "x=good"], "the model x is there twice"),
        (["x=poor", "--out", "ref/text"], "--out ref/text is not a folder"),
        (["_x=poor"], "the model _x begins with _ or has a |"),
        (["x|y=poor"], "the model x|y begins with _ or has a |"),
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


def test_a_folder_that_cannot_be_made_is_told(folder, capsys):
    (folder / "out").touch()
    assert score(folder) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and str(folder / "out") in error


def test_no_command_is_told(capsys):
    assert main([]) == 1
    assert "the following arguments are required: COMMAND" in capsys.readouterr().err


# lengths


@pytest.fixture
def recorded(tmp_path):
    """Two recordings, of 1.5 s at 1000 Hz and of 2 s at 2000 Hz."""
    paths = {}
    for name, samples, rate in (("a", 1500, 1000), ("b", 4000, 2000)):
        paths[name] = str(tmp_path / f"{name}.wav")
        soundfile.write(paths[name], np.zeros(samples), rate)
    return DataDir(paths, dict.fromkeys(paths, "X"), dict.fromkeys(paths, "s"))


def test_lengths_come_from_headers(recorded, tmp_path):
    assert lengths.seconds(recorded, tmp_path) == {"a": 1.5, "b": 2}


def test_lengths_come_from_segments(recorded, tmp_path):
    segments = {"u": ("a", 0.25, 1.5), "v": ("b", 0.0, 0.5)}
    data = DataDir(recorded.wav, {"u": "X", "v": "Y"}, {"u": "s", "v": "s"}, segments)
    assert lengths.seconds(data, tmp_path) == {"u": 1.25, "v": 0.5}


def test_lengths_come_from_stage_3_at_the_rate_of_the_audio(recorded, tmp_path):
    write_table({"a": 3000, "b": 500}, tmp_path / "utt2num_samples")
    assert lengths.seconds(recorded, tmp_path) == {"a": 3, "b": 0.5}
    assert lengths.seconds(recorded, tmp_path, 500) == {"a": 6, "b": 1}


def test_lengths_that_stage_3_does_not_tell_are_named(recorded, tmp_path):
    write_table({"a": 3000}, tmp_path / "utt2num_samples")
    with pytest.raises(RecipeError, match="does not tell the samples of b"):
        lengths.seconds(recorded, tmp_path)


def test_many_problems_are_not_all_listed(tmp_path):
    names = [f"u{n:02}" for n in range(12)]
    wav = {name: str(tmp_path / f"{name}.wav") for name in names}
    data = DataDir(wav, dict.fromkeys(names, "X"), dict.fromkeys(names, "s"))
    with pytest.raises(RecipeError) as caught:
        lengths.spans(data)
    assert len(caught.value.args) == 11
    assert caught.value.args[-1] == "and 2 more like these"
