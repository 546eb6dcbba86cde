"""A log is followed line by line while it is written."""

from espnet_srupp.recipe.process import Tail


def test_log_that_is_not_there_yet_has_no_lines(tmp_path):
    tail = Tail(tmp_path / "log")
    assert tail.lines() == []
    (tmp_path / "log").write_text("one\ntw")
    assert tail.lines() == ["one"]


def test_a_log_that_is_put_aside_is_followed_in_its_new_file(tmp_path):
    log = tmp_path / "log"
    log.write_text("old\n")
    tail = Tail(log)
    log.rename(tmp_path / "log.1")
    assert tail.lines() == []
    log.write_text("new, and longer\n")
    assert tail.lines() == ["new, and longer"]


def test_a_log_that_begins_anew_is_followed_from_its_first_line(tmp_path):
    log = tmp_path / "log"
    log.write_text("old, and longer\n")
    tail = Tail(log)
    # in the same file, as a new one may be by its number
    log.write_text("new\n")
    assert tail.lines() == ["new"]


def test_a_line_that_is_half_written_is_told_once_it_is_whole(tmp_path):
    (tmp_path / "log").write_text("earlier\n")
    tail = Tail(tmp_path / "log")
    for text, told in (
        ("one\ntw", ["one"]),
        ("o", []),
        ("\nthree\n", ["two", "three"]),
    ):
        with open(tmp_path / "log", "a") as file:
            file.write(text)
        assert tail.lines() == told
    assert tail.lines() == []


def test_a_line_may_be_any_bytes(tmp_path):
    tail = Tail(tmp_path / "log")
    (tmp_path / "log").write_bytes(b"caf\xe9\n")
    assert tail.lines() == ["caf\ufffd"]
