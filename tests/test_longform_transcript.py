"""Transcripts come back as they were written, and subtitles can be read."""

import math
import mmap
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from processes import needs_proc

from espnet_srupp.longform import transcript
from espnet_srupp.longform.transcript import Transcript
from espnet_srupp.longform.usage import PeakMemory, Usage
from espnet_srupp.longform.words import Word
from espnet_srupp.recipe.errors import RecipeError

SETTINGS = {"search": "greedy", "start": 0.1, "end": None}


def made(words=(), name="a", text="A B"):
    used = Usage(3.5, 0.25, None)
    return Transcript(name, text, list(words), " ", used, SETTINGS)


def evenly(count, text="WORD", every=0.5, start=0.0):
    return [
        Word(text, start + n * every, start + n * every + 0.3) for n in range(count)
    ]


def test_what_is_written_is_read(tmp_path):
    item = made([Word("A", 0.25, 0.5), Word("Ü", 1.0, 1.125)])
    transcript.write(item, tmp_path)
    assert transcript.read(tmp_path, "a", SETTINGS) == item


def test_a_result_is_for_people_to_read_too(tmp_path):
    transcript.write(made([Word("Ü", 1 / 3, 2 / 3)]), tmp_path)
    content = (tmp_path / "a.json").read_text("utf-8")
    assert '"Ü"' in content and "0.333," in content and "0.667\n" in content


@pytest.mark.parametrize("change", [{"search": "prefix"}, {"beam_size": 2}])
def test_results_of_other_settings_are_not_taken(tmp_path, change):
    transcript.write(made(), tmp_path)
    assert transcript.read(tmp_path, "a", SETTINGS | change) is None


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", "{}", "[" * 10**5, '{"words": [{"a": 1}]}']
)
def test_what_is_no_result_is_not_taken(tmp_path, content):
    if content is not None:
        (tmp_path / "a.json").write_text(content)
    assert transcript.read(tmp_path, "a", SETTINGS) is None


def test_a_result_that_is_not_whole_is_not_taken(tmp_path):
    transcript.write(made(), tmp_path)
    (tmp_path / "a.srt").unlink()
    transcript.check(tmp_path, "a")
    assert transcript.read(tmp_path, "a", SETTINGS) is None


def test_subtitles_of_an_older_result_are_not_taken_for_those_of_a_new_one(
    tmp_path, monkeypatch
):
    transcript.write(made(), tmp_path)
    new = replace(made(), settings={"model": "new"})
    monkeypatch.setattr(transcript, "subtitles", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        transcript.write(new, tmp_path)
    assert transcript.read(tmp_path, "a", new.settings) is None


@pytest.mark.parametrize(
    "name, content",
    [("a.srt", ""), ("a.json", "{"), ("a.json", "[]"), ("a.json", '{"words": []}')],
)
def test_files_of_something_else_are_not_overwritten(tmp_path, name, content):
    transcript.check(tmp_path, "a")
    (tmp_path / name).write_text(content)
    with pytest.raises(RecipeError, match="transcribe did not make: give another --o"):
        transcript.check(tmp_path, "a")


def test_a_folder_with_the_text_of_something_else_is_refused(tmp_path):
    out = tmp_path / "new" / "out"
    transcript.claim(out)
    assert list(out.iterdir()) == []
    transcript.write_all([made()], out)
    transcript.claim(out)
    (tmp_path / "text").write_text("a REFERENCE")
    for wrong in (tmp_path, out / "text"):
        with pytest.raises(RecipeError, match="--out .*: give another"):
            transcript.claim(wrong)


def test_line_is_that_of_a_text_file():
    assert made().line == "a A B"
    assert made(text="").line == "a"


def cues(words, blank=" "):
    found = transcript.subtitles(words, blank, math.inf)
    pattern = r"(\d+)\n(\S+) --> (\S+)\n(.*)\n(?:\n|$)"
    parts = re.findall(pattern, found)
    assert "".join(re.split(pattern, found)[::5]) == ""
    assert [int(part[0]) for part in parts] == list(range(1, len(parts) + 1))
    return [part[1:] for part in parts]


def test_a_cue_ends_at_a_pause():
    words = [*evenly(3), *evenly(2, start=2.5)]
    assert cues(words) == [
        ("00:00:00,000", "00:00:01,300", "WORD WORD WORD"),
        ("00:00:02,500", "00:00:03,500", "WORD WORD"),
    ]


def test_no_cue_is_too_long_or_too_wide():
    slow, fast = evenly(60, every=0.9), evenly(400, "SHORTWORD", 0.32)
    for words in (slow, fast):
        found = list(transcript.grouped(words, 1))
        assert sum(found, []) == words
        assert all(cue[-1].end - cue[0].start <= 7.0 for cue in found)
        assert all(len(" ".join(w.text for w in cue)) <= 80 for cue in found)
    # and none is shorter than it must be
    assert len(cues(slow)) == 60 // 8 + 1
    assert len(cues(fast)) == 400 // 8


def test_the_first_cue_is_as_wide_as_the_others():
    line = [*evenly(15, every=0.1), Word("WORDS", 1.5, 1.6)]
    assert [len(cue[2]) for cue in cues(line)] == [80]


def test_a_word_wider_than_a_cue_stands_alone():
    words = [Word("A", 0, 0.1), Word("B" * 90, 0.2, 0.3), Word("C", 0.4, 0.5)]
    assert [len(cue[2]) for cue in cues(words)] == [1, 90, 1]


def test_cues_stay_a_second_and_do_not_overlap():
    words = [Word("A" * 50, 0.0, 0.1), Word("B" * 50, 0.4, 0.5)]
    (_, first, _), (second, last, _) = cues(words)
    assert (first, second, last) == ("00:00:00,400", "00:00:00,400", "00:00:01,400")


def test_chinese_is_written_without_blanks():
    assert cues([Word("你", 0, 0.1), Word("好", 0.2, 0.3)], "")[0][2] == "你好"


@pytest.mark.parametrize(("blank", "glued"), [("", False), (" ", True)])
def test_a_line_without_blanks_is_as_wide_as_one_with_them(blank, glued):
    words = [replace(word, glued=glued) for word in evenly(100, "字", every=0.01)]
    assert [len(cue[2]) for cue in cues(words, blank)] == [80, 20]


def test_words_are_glued_where_their_script_has_no_blanks(tmp_path):
    said = [Word("OK", 0.0, 0.1), Word("你", 0.2, 0.3), Word("好", 0.4, 0.5, True)]
    assert cues(said)[0][2] == "OK 你好"
    transcript.write(made(said), tmp_path)
    assert transcript.read(tmp_path, "a", SETTINGS).words == said
    assert (tmp_path / "a.json").read_text("utf-8").count("glued") == 1


def test_the_last_cue_ends_with_the_recording(tmp_path):
    used = Usage(0.9, 1.0, None)
    transcript.write(replace(made(), words=evenly(2), usage=used), tmp_path)
    assert "--> 00:00:00,900" in (tmp_path / "a.srt").read_text()


def test_nothing_said_is_no_cue():
    assert transcript.subtitles([], " ", 9.0) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00,000"), (3723.5, "01:02:03,500"), (35999.9996, "10:00:00,000")],
)
def test_time(seconds, text):
    assert transcript.time(seconds) == text


def test_peak_memory_is_that_since_it_was_made():
    if (before := PeakMemory().bytes()) is None:
        pytest.skip("this system does not tell the peak of memory")
    take_and_give_back(200_000_000)
    between = PeakMemory()
    assert between.bytes() < before + 100_000_000
    take_and_give_back(200_000_000)
    assert between.bytes() > before + 150_000_000


def take_and_give_back(size):
    # not by the C library, which may keep what is freed
    with mmap.mmap(-1, size) as memory:
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1


def test_peak_memory_is_unknown_where_it_cannot_be_reset(tmp_path, monkeypatch):
    monkeypatch.setattr(PeakMemory, "RESET", tmp_path / "no" / "such")
    assert PeakMemory().bytes() is None


def at_second_call(monkeypatch, owner, name):
    """Interrupts at the second call of a function."""
    calls, function = [], getattr(owner, name)

    def call(*words, **options):
        calls.append(words)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return function(*words, **options)

    monkeypatch.setattr(owner, name, call)


def test_a_folder_that_was_left_half_written_is_still_ours(tmp_path, monkeypatch):
    transcript.write_all([made()], tmp_path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        at_second_call(patch, Path, "unlink")
        transcript.begin(tmp_path)
    transcript.claim(tmp_path)
    for name in ("text", "longform.jsonl"):
        (tmp_path / name).unlink(missing_ok=True)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        at_second_call(patch, os, "replace")
        transcript.write_all([made()], tmp_path)
    transcript.claim(tmp_path)


def test_a_pause_begins_where_a_word_ends():
    assert len(cues([Word("A", 0.0, 0.9), Word("B", 1.5, 1.8)])) == 1
    assert len(cues([Word("A", 0.0, 0.9), Word("B", 2.0, 2.1)])) == 2


@needs_proc
def test_memory_is_told_in_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    if (peak := PeakMemory().bytes()) is not None:
        assert peak > 0.99 * pages * os.sysconf("SC_PAGE_SIZE")


def test_a_cue_ends_before_the_word_that_makes_it_too_long():
    said = [Word("A", 0.0, 3.5), Word("B", 3.6, 6.9), Word("C", 6.95, 8.0)]
    found = [[word.text for word in cue] for cue in transcript.grouped(said, 1)]
    assert found == [["A", "B"], ["C"]]


def test_a_name_too_long_for_a_file_is_no_result(tmp_path):
    assert transcript.read(tmp_path, 251 * "n", {}) is None
