"""Progress is told to people and to logs alike."""

import sys

from espnet_srupp.recipe.progress import Progress


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
