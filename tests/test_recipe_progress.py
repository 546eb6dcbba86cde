"""Progress is told to people and to logs alike."""

from espnet_srupp.recipe.progress import Progress


def test_progress_without_a_terminal_is_ten_lines(capsys):
    with Progress("decoding", 200, "utterances") as progress:
        for done in range(0, 201, 3):
            progress.update(done)
        progress.update(200)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[-1].strip() == "decoding: 200/200 utterances"
