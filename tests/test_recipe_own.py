"""A corpus of one's own is taken over as it lies, whatever its paths begin at."""

import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import soundfile
from data.own_corpus import kaldi, record

from espnet_srupp.recipe import asr, data_stages, datadir, model_stages, stage
from espnet_srupp.recipe.corpora import own
from espnet_srupp.recipe.errors import RecipeError
from espnet_srupp.recipe.layout import layout
from espnet_srupp.recipe.options import Options
from espnet_srupp.recipe.table import read_table

GIVEN = ["--corpus", "own", "--train_set", "train", "--valid_set", "dev"]
GIVEN += ["--test_sets", "test", "--nj", "1", "--token_type", "char"]
SETS = ("train", "dev", "test")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of a recipe, beside which the corpus lies in `corpus`."""
    (tmp_path / "recipe").mkdir()
    monkeypatch.chdir(tmp_path / "recipe")
    return tmp_path / "corpus"


@pytest.mark.parametrize("base", ["", "data", "data/train"])
def test_relative_paths_begin_at_the_nearest_folder_above_a_set_that_has_them(
    base, here
):
    record(here / base / "wav" / "a.wav")
    kaldi(here / "data" / "train", "a wav/a.wav\n", utt2spk="a anna\n")
    own.prepare(Path("data"), here / "data", "train")
    found = datadir.read(Path("data/train"))
    assert found.wav == {"a": str(here / base / "wav" / "a.wav")}
    assert (found.text, found.utt2spk) == ({"a": "HELLO"}, {"a": "anna"})


def test_a_path_too_long_for_a_file_is_left_for_the_check(here):
    record(here / "b.wav")
    kaldi(here / "train", f"a {'a' * 300}\nb b.wav\n", "a A\nb B\n")
    own.prepare(Path("data"), here, "train")
    assert datadir.read(Path("data/train")).wav["b"] == str(here / "b.wav")


def test_paths_that_begin_nowhere_are_told_before_a_set_is_written(here):
    kaldi(here / "train", "a wav/a.wav\n")
    with pytest.raises(RecipeError, match=r"has wav/a.wav: write absolute paths"):
        own.prepare(Path("data"), here, "train")
    assert not Path("data/train").exists()


def test_a_set_that_is_a_link_has_paths_from_above_the_link(here):
    record(here / "wav" / "a.wav")
    kaldi(here.parent / "large" / "train", "a wav/a.wav\n")
    (here / "train").symlink_to(here.parent / "large" / "train")
    own.prepare(Path("data"), here, "train")
    assert datadir.read(Path("data/train")).wav == {"a": str(here / "wav" / "a.wav")}


def test_a_byte_order_mark_and_blank_lines_are_no_part_of_a_table(here):
    record(here / "a.wav")
    text = "\ufeffa HELLO\r\n\r\n \n"
    kaldi(here / "train", f"\ufeffa {here}/a.wav\r\n\r\n", text)
    own.prepare(Path("data"), here, "train")
    found = datadir.read(Path("data/train"))
    assert found.wav == {"a": f"{here}/a.wav"}
    assert (found.text, found.utt2spk) == ({"a": "HELLO"}, {"a": "a"})


@pytest.mark.parametrize(
    ("text", "problem"), [(None, "train has no text: write"), (" \n", "text is empty")]
)
def test_a_set_without_transcripts_is_refused_where_it_lies(text, problem, here):
    record(here / "a.wav")
    kaldi(here / "train", f"a {here}/a.wav\n", text or "")
    if text is None:
        (here / "train" / "text").unlink()
    with pytest.raises(RecipeError, match=problem) as found:
        own.prepare(Path("data"), here, "train")
    assert str(here) in str(found.value)
    assert not Path("data/train").exists()


def test_the_folder_that_stage_1_writes_to_is_no_corpus(here):
    record(here / "a.wav")
    kaldi(here / "train", f"a {here}/a.wav\n")
    own.prepare(Path("data"), here, "train")
    before = Path("data/train").stat()
    with pytest.raises(RecipeError, match="is where stage 1 writes: give --OWN"):
        own.prepare(Path("data"), Path("data").absolute(), "train")
    assert Path("data/train").stat() == before


def test_tables_are_sorted_and_segments_kept_and_each_utterance_has_a_speaker(here):
    record(here / "b c.wav", 2)
    lines = "u2 TWO\nu1 ONE\n"
    segments = "u2 b 1 2\nu1 b 0 1\n"
    kaldi(here / "train", f"b {here}/b c.wav\n", lines, segments=segments)
    own.prepare(Path("data"), here, "train")
    found = datadir.read(Path("data/train"))
    assert found.wav == {"b": f"{here}/b c.wav"}
    assert list(found.text.items()) == [("u1", "ONE"), ("u2", "TWO")]
    assert found.segments == {"u1": ("b", 0.0, 1.0), "u2": ("b", 1.0, 2.0)}
    assert found.utt2spk == {"u1": "u1", "u2": "u2"}


def test_what_is_wrong_with_a_line_is_left_for_the_check(here):
    record(here / "a.wav")
    wav = f"a {here}/a.wav\nb sox {here}/a.wav -t wav - |\nc\n"
    kaldi(here / "train", wav, "a HELLO\na AGAIN\nb B\xa0B\nc\n")
    own.prepare(Path("data"), here, "train")
    faults = {}
    found = datadir.read(Path("data/train"), faults)
    assert found.text == {}
    assert {key: fault.kind for key, fault in faults.items()} == {
        **{"a": "twice", "b": "command", "c": "empty line"}
    }


def test_a_set_that_is_not_there_or_twice_is_named(here):
    here.mkdir()
    with pytest.raises(RecipeError, match="has no set train, neither train/wav.scp"):
        own.sources(here, "train")
    for name in ("a_recordings_train.jsonl", "b_recordings_train.jsonl.gz"):
        (here / name).touch()
    with pytest.raises(RecipeError, match="one file of recordings and one of"):
        own.sources(here, "train")


def test_a_set_of_the_user_in_data_stays(here):
    record(here / "a.wav")
    kaldi(here / "train", f"a {here}/a.wav\n")
    kaldi(Path("data/train"), "mine mine.wav\n")
    with pytest.raises(RecipeError, match="is not of stage 1"):
        own.prepare(Path("data"), here, "train")
    assert read_table(Path("data/train/wav.scp")) == {"mine": "mine.wav"}


@pytest.fixture
def corpus(here):
    for name in SETS:
        record(here / f"{name}.wav", 2, 8000 if name == "dev" else 16000)
        kaldi(here / name, f"a {here}/{name}.wav\n", utt2spk="a anna\n")
    return here


def test_a_corpus_is_taken_again_when_its_tables_change(corpus, capsys):
    given = [*GIVEN, "--stop_stage", "1"]
    assert asr.main([*given, "--OWN", str(corpus)]) == 0
    assert asr.main(given) == 0
    assert f"stage 1: dev of {corpus}: done before" in capsys.readouterr().out
    (corpus / "dev" / "text").write_text("a OTHER\n")
    assert asr.main(given) == 0
    assert datadir.read(Path("data/dev")).text == {"a": "OTHER"}


def test_a_set_that_another_corpus_has_replaced_is_taken_again(corpus, here):
    given = [*GIVEN, "--stop_stage", "1"]
    assert asr.main([*given, "--OWN", str(corpus)]) == 0
    other = here.parent / "other"
    for name in ("more", "dev", "test"):
        kaldi(other / name, f"a {here}/{name}.wav\n", "a OTHER\n")
    more = ["--OWN", str(other), "--train_set", "more"]
    assert asr.main([*given, *more]) == 0
    assert datadir.read(Path("data/dev")).text == {"a": "OTHER"}
    assert asr.main([*given, "--OWN", str(corpus)]) == 0
    assert datadir.read(Path("data/dev")).text == {"a": "HELLO"}


def test_several_may_note_at_once_where_the_corpus_lies(here):
    notes = [{"folder": str(number % 2)} for number in range(200)]
    with ProcessPoolExecutor(4) as processes:
        list(processes.map(data_stages.remember, notes))
    assert stage.read(data_stages.ORIGIN) in notes


def test_without_a_folder_the_command_says_how_to_give_it(here, capsys):
    assert asr.main([*GIVEN, "--stop_stage", "1"]) == 1
    assert "--OWN DIR, the folder of your sets, is required" in capsys.readouterr().err


SPEEDS = ["--speed_perturb_factors", "1.0 1.1"]


@pytest.mark.parametrize("speeds", [[], SPEEDS], ids=["one speed", "two"])
def test_audio_of_another_rate_is_resampled_where_that_is_asked_for(
    speeds, corpus, capsys
):
    given = [*GIVEN, *speeds, "--stop_stage", "3", "--OWN", str(corpus)]
    given += ["--valid_set", "train", "--train_set", "dev"]
    assert asr.main(given) == 1
    assert "8000 Hz, not at 16000 Hz: give --resample true" in capsys.readouterr().err
    assert asr.main([*given, "--resample", "true"]) == 0
    folder = Path("dump/raw/org") / ("dev_sp" if speeds else "dev")
    samples = read_table(folder / "utt2num_samples")
    assert samples["a"] == "32000"
    found, rate = soundfile.read(read_table(folder / "wav.scp")["a"])
    assert (len(found), rate) == (32000, 16000)
    if speeds:
        assert samples["sp1.1-a"] == "29091"
    # what was resampled does not pass for audio of that rate
    assert asr.main(given) == 1


def test_audio_of_several_rates_is_joined_and_written_once(corpus):
    record(corpus / "b.wav", 1, 44100)
    wav, both = f"a {corpus}/dev.wav\nb {corpus}/b.wav\n", "a anna\nb anna\n"
    kaldi(corpus / "dev", wav, both, utt2spk=both)
    given = [*GIVEN, *SPEEDS, "--train_joined", "2", "--resample", "true"]
    given += ["--longform_join_args", "--group '()'", "--stop_stage", "3"]
    given += ["--valid_set", "train", "--train_set", "dev", "--OWN", str(corpus)]
    assert asr.main(given) == 0
    made = Path("dump/raw/org/dev_sp_join2")
    lengths = read_table(made / "utt2num_samples").values()
    assert sorted(map(int, lengths)) == [14545, 16000, 29091, 32000, 48000]
    wav = read_table(made / "wav.scp")
    assert wav["a"].startswith("data/dev_16000/audio/")
    assert {soundfile.info(path).samplerate for path in wav.values()} == {16000}


@pytest.mark.parametrize("resample", [True, False])
def test_a_training_uses_the_resampled_set_that_its_audio_lies_in(resample, here):
    sets = {"train_set": "train", "valid_set": "dev", "test_sets": "test"}
    speeds = {"speed_perturb_factors": "0.9 1.0"}
    given = Options(**sets, **speeds, fs="8k", resample=resample)
    used = model_stages.heard(given, layout(given))
    assert (Path("data/train_8000") in used) == resample


def test_segments_lie_at_the_same_seconds_after_resampling(here):
    record(here / "r.wav", 2, 8000)
    for name in SETS:
        segments = {"segments": "u r 0.5 1.5\n", "utt2spk": "u anna\n"}
        kaldi(here / name, f"r {here}/r.wav\n", "u ONE\n", **segments)
    given = [*GIVEN, "--stop_stage", "3", "--resample", "true", "--OWN", str(here)]
    assert asr.main(given) == 0
    assert read_table(Path("dump/raw/test/utt2num_samples")) == {"u": "16000"}


def test_the_check_takes_other_rates_where_they_are_resampled(corpus, capsys):
    given = [*GIVEN, "--check", "true", "--OWN", str(corpus)]
    assert asr.main([*GIVEN, "--stop_stage", "1", "--OWN", str(corpus)]) == 0
    assert asr.main(given) == 1
    assert "1 of another rate" in capsys.readouterr().out
    assert asr.main([*given, "--resample", "true"]) == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--archive", "a.zip"], "--archive is not for own: unpack it"),
        (["--partial", "true"], "--partial is about a corpus .*: leave it out"),
        (["--LIBRISPEECH", "."], "is an option of the recipe librispeech, not of own"),
    ],
)
def test_options_of_other_corpora_are_refused(words, problem, corpus, capsys):
    Path("a.zip").touch()
    assert asr.main([*GIVEN, "--OWN", str(corpus), *words]) == 1
    assert re.search(problem, capsys.readouterr().err)
