"""Progress is told to people and to logs alike."""

import sys

import pytest

from espnet_srupp.recipe.progress import Progress, timespan


def test_progress_needs_no_standard_error(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Progress("decoding", 1, "utterances") as progress:
        progress.update(1)
    assert capsys.readouterr().out.strip() == "decoding: 1/1 utterances"


def test_progress_without_a_terminal_is_ten_lines(capsys):
    with Progress("decoding", 200, "utterances") as progress:
        for done in range(0, 201, 3):
            progress.update(done)
        progress.update(200)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[-1].strip() == "decoding: 200/200 utterances"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59.6, "1 min 0 s"), (75, "1 min 15 s"), (3725, "1 h 2 min")],
)
def test_times_have_two_units_at_most(seconds, words):
    assert timespan(seconds) == words
