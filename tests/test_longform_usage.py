"""What transcribing took is read from its log, where that tells all of it."""

import json

import pytest
from data.small_sets import SECONDS, cells, score, write_sets

from espnet_srupp.longform import usage

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def folder(tmp_path):
    return write_sets(tmp_path)


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
        pytest.param("[" * 10**5, id="nested"),
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


def test_of_an_utterance_that_is_there_twice_the_last_line_counts(tmp_path):
    lines = [logged(computing=seconds) for seconds in (1, 2)]
    (tmp_path / "longform.jsonl").write_text("\n".join(lines))
    (used,) = usage.read(tmp_path / "longform.jsonl").values()
    assert used.computing_seconds == 2
