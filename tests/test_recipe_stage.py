"""A finished step is not done again, unless what it depends on has changed."""

import os
from contextlib import contextmanager

import pytest

from espnet_srupp.recipe import stage
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.locks import Locks
from espnet_srupp.recipe.stage import Step


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A step that copies `in` to `out` in capitals, and counts how often."""
    monkeypatch.chdir(tmp_path)

    class Work:
        done = 0
        source, target = tmp_path / "in", tmp_path / "out"
        options = {"nbpe": 30}
        audio = None
        check = staticmethod(lambda: None)

        def copy(self):
            self.done += 1
            self.target.write_text(self.source.read_text().upper())

        def run(self, force=False):
            step = Step(
                5,
                "capitals",
                self.copy,
                [self.target],
                [self.source],
                self.options,
                self.audio,
                self.check,
            )
            return stage.run(step, Locks(), force)

    Work.source.write_text("text")
    return Work()


def test_first_run_works_and_second_does_not(work, capsys):
    assert work.run()
    assert not work.run()
    assert work.done == 1
    assert work.target.read_text() == "TEXT"
    assert "stage 5: capitals: done before" in capsys.readouterr().out


def test_force_works_again(work):
    work.run()
    assert work.run(force=True)
    assert work.done == 2


def test_a_missing_input_is_named_and_leaves_nothing_behind(work, tmp_path):
    work.source.unlink()
    with pytest.raises(RecipeError, match=r"stage 5 \(capitals\) needs .*in.*--stage"):
        work.run()
    assert [path.name for path in tmp_path.iterdir()] == [".locks"]


def change_input(work):
    work.source.write_text("other")


def change_option(work):
    work.options = {"nbpe": 50}


def add_option(work):
    work.options = {"nbpe": 30, "lang": "en"}


def change_two(work):
    work.options = {"nbpe": 50, "lang": "en"}


def change_three(work):
    work.options = {"nbpe": 50, "lang": "en", "oov": "?"}


def remove_output(work):
    work.target.unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (change_input, "in has changed"),
        (change_option, "nbpe was 30, is 50"),
        (add_option, "lang was not set, is en"),
        (change_two, "lang was not set, is en, nbpe was 30, is 50\n"),
        (change_three, "is en, nbpe was 30, is 50 and 1 more changes\n"),
        (remove_output, "out is gone"),
    ],
)
def test_change_works_again_and_says_why(work, change, said, capsys):
    work.run()
    change(work)
    assert work.run()
    shown = capsys.readouterr().out
    assert said in shown
    assert "again" in shown
    assert not work.run()


def test_what_has_passed_as_strict_is_not_done_again_without(work):
    work.options = {"nbpe": 30, "strict": True}
    assert work.run()
    work.options = {"nbpe": 30}
    assert not work.run()


def test_what_has_passed_is_done_again_as_strict(work):
    assert work.run()
    work.options = {"nbpe": 30, "strict": True}
    assert work.run()


def test_a_setting_is_the_same_in_a_yaml_and_on_the_command_line(work):
    assert work.run()
    work.options = {"nbpe": "30"}
    assert not work.run()


def test_an_input_that_changed_during_the_work_is_a_change(work):
    copy = work.copy

    def slow():
        copy()
        work.source.write_text("other")

    work.copy = slow
    work.run()
    work.copy = copy
    assert work.run()
    assert work.target.read_text() == "OTHER"


def test_steps_are_told_apart_by_all_of_a_name(work, tmp_path):
    paths = [tmp_path / "test.clean", tmp_path / "test.other"]
    for new in (True, False):
        for path in paths:
            step = Step(5, "x", path.touch, [path], options={"set": path.name})
            assert stage.run(step, Locks()) == new


def test_touching_an_input_changes_nothing(work):
    work.run()
    work.source.write_text(work.source.read_text())
    assert not work.run()


@pytest.mark.parametrize("blank", [" ", "\t"])
@pytest.mark.parametrize("what", ["content", "gone"])
def test_audio_files_count_by_size_and_time(work, tmp_path, what, blank):
    sound = tmp_path / "a.wav"
    sound.write_bytes(b"1")
    work.audio = tmp_path / "wav.scp"
    work.audio.write_text(f"a{blank}{sound}\n")
    work.run()
    assert not work.run()
    sound.write_bytes(b"12") if what == "content" else sound.unlink()
    assert work.run()


@pytest.mark.parametrize("error", [RecipeError, KeyboardInterrupt, OSError])
def test_failed_work_leaves_no_record(work, error, monkeypatch):
    work.run()
    copy = work.copy

    def fail():
        raise error

    work.copy = fail
    with pytest.raises(error):
        work.run(force=True)
    work.copy = copy
    assert work.run()


def test_there_is_no_record_where_a_file_is_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "exp").touch()
    assert stage.read(tmp_path / "exp" / ".training") is None


@pytest.mark.parametrize("damage", ["cut", "[1]", "[" * 10**5])
def test_damaged_record_means_to_work_again(work, tmp_path, damage):
    work.run()
    (record,) = tmp_path.glob(".out.made")
    record.write_text(record.read_text()[:10] if damage == "cut" else damage)
    assert work.run()


def test_what_two_stages_make_is_that_of_the_last(work):
    work.run()
    other = Step(6, "other", lambda: work.target.write_text("other"), [work.target])
    assert stage.run(other, Locks())
    assert not stage.run(other, Locks())
    assert work.run()
    assert work.target.read_text() == "TEXT"


def test_a_moved_folder_of_inputs_changes_nothing(work, tmp_path):
    work.run()
    (tmp_path / "elsewhere").mkdir()
    work.source = work.source.rename(tmp_path / "elsewhere" / "in")
    assert not work.run()


def test_exchanged_inputs_are_a_change(work, tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text(path.name)
    for inputs in (paths, paths[::-1]):
        assert stage.run(Step(5, "x", work.copy, [work.target], inputs), Locks())


def test_an_input_more_or_less_is_named(work, tmp_path, capsys):
    more = tmp_path / "more"
    more.write_text("1")
    for inputs in ([work.source], [work.source, more], [work.source]):
        stage.run(Step(5, "x", work.copy, [work.target], inputs), Locks())
    said = capsys.readouterr().out
    assert f"as {more} has changed" in said and f"as {more} is left out" in said


def test_work_that_cannot_begin_leaves_what_is_finished(work):
    work.run()

    def refuse():
        raise RecipeError("no GPU")

    work.options, work.check = {"nbpe": 50}, refuse
    with pytest.raises(RecipeError, match="no GPU"):
        work.run()
    work.options = {"nbpe": 30}
    assert not work.run()


@pytest.mark.parametrize("what", ["size", "time"])
def test_audio_of_another_size_or_another_time_is_other_audio(work, tmp_path, what):
    sound, times = tmp_path / "a.wav", (1_000_000_000, 1_000_000_000)
    work.audio = tmp_path / "wav.scp"
    work.audio.write_text(f"a {sound}\n")
    for content, time_of in ((b"1", 0), (b"12" if what == "size" else b"2", 1)):
        sound.write_bytes(content)
        os.utime(sound, ns=tuple(t + time_of * (what == "time") for t in times))
        assert work.run()
    assert not work.run()


def test_any_output_that_is_gone_is_made_again(work, tmp_path):
    outputs = [tmp_path / "one", tmp_path / "two"]
    step = Step(5, "x", lambda: [path.touch() for path in outputs], outputs)
    assert stage.run(step, Locks())
    for path in outputs:
        path.unlink()
        assert stage.run(step, Locks())
        assert not stage.run(step, Locks())


def test_what_another_one_has_done_between_two_looks_is_not_done_again(
    work, monkeypatch
):
    held = Locks.held

    @contextmanager
    def later(*words, alone, **others):
        if alone and not work.done:
            # another run.sh was faster
            work.done = 1
            work.run(force=True)
            work.done = 1
        with held(*words, alone=alone, **others):
            yield

    monkeypatch.setattr(Locks, "held", later)
    assert not work.run()
    assert work.done == 1


def test_audio_with_a_blank_in_its_name_counts(work, tmp_path):
    sound = tmp_path / "my talk.wav"
    sound.write_bytes(b"1")
    work.audio = tmp_path / "wav.scp"
    work.audio.write_text(f"a {sound}\n")
    work.run()
    sound.write_bytes(b"12")
    assert work.run()


def test_the_end_of_a_large_input_counts(work):
    content = "x" * (5 << 19)
    work.source.write_text(content)
    work.run()
    work.source.write_text(content[:-1] + "y")
    assert work.run()
