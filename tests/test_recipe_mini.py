"""The embedded corpus: the same every time, its sets apart, its audio usable."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from processes import end_with_a_killed_parent, needs_proc

from espnet_srupp.recipe import datadir, sound
from espnet_srupp.recipe.corpora import espeak, mini
from espnet_srupp.recipe.corpora.espeak import Voice, speak
from espnet_srupp.recipe.errors import RecipeError


def small(monkeypatch):
    """Two voices per set and three sentences each, of the ones that are spoken."""
    variants = {name: voices[:2] for name, voices in mini.VARIANTS.items()}
    monkeypatch.setattr(mini, "VARIANTS", variants)
    monkeypatch.setattr(mini, "SENTENCES_PER_SPEAKER", 3)


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_same_bytes_come_out_for_any_number_of_processes(tmp_path, monkeypatch):
    small(monkeypatch)
    monkeypatch.chdir(tmp_path)
    made = []
    for processes in (1, 3):
        monkeypatch.setattr(mini, "cores", lambda count=processes: count)
        mini.prepare(Path("data"), Path("downloads"), None)
        made.append(contents(tmp_path))
    assert made[0] == made[1]
    assert len([path for path in made[0] if path.suffix == ".flac"]) == 18


SPEAKING = """
import os, time
from pathlib import Path
from espnet_srupp.recipe.corpora import mini
def record(speaker):
    os.write(1, b"%d %d\\n" % (os.getpid(), os.getppid()))
    time.sleep(60)
mini.record = record
mini.prepare(Path("data"), Path("downloads"), None)
"""


@needs_proc
def test_speakers_end_with_a_parent_that_is_killed(tmp_path):
    assert end_with_a_killed_parent("-c", SPEAKING, count=2, cwd=tmp_path)


@pytest.mark.parametrize("length", [espeak.LONGEST, espeak.LONGEST + 1, 240])
def test_espeak_speaks_from_a_folder_however_deep(monkeypatch, length):
    import espeakng_loader

    with TemporaryDirectory() as place:
        deep = Path(place, "x" * (length - len(place) - 1))
        deep.symlink_to(espeakng_loader.get_data_path())
        monkeypatch.setattr(espeakng_loader, "get_data_path", lambda: str(deep))
        with ProcessPoolExecutor(1) as pool:
            assert pool.submit(first_samples).result() > 0


def first_samples():
    (samples, _), *_ = speak(Voice("en-us", "f1", 150, 50), ["hello"])
    return len(samples)


def test_every_variant_speaks_the_same_from_process_to_process():
    # espeak-ng's variants with breath do not, so none of them may come in
    import espeakng_loader

    folder = Path(espeakng_loader.get_data_path()) / "voices" / "!v"
    for variants in mini.VARIANTS.values():
        for variant in variants:
            lines = (folder / variant).read_text(encoding="utf-8").splitlines()
            assert not any(line.startswith("breath") for line in lines), variant


def test_sets_share_words_and_no_sentence_and_no_voice():
    cast = mini.cast()
    sentences = {
        name: {line for lines in scripts.values() for line in lines.values()}
        for name, scripts in cast.items()
    }
    words = {
        name: {word for line in lines for word in line.split()}
        for name, lines in sentences.items()
    }
    for one, other in [("train", "dev"), ("train", "test"), ("dev", "test")]:
        assert sentences[one].isdisjoint(sentences[other])
        variants = [{voice.variant for voice in cast[name]} for name in (one, other)]
        assert variants[0].isdisjoint(variants[1])
    assert words["dev"] | words["test"] <= words["train"]
    assert 60 <= len(words["train"]) <= 120


def test_every_word_is_said_often_enough_to_be_learned():
    count = {}
    for lines in mini.cast()["train"].values():
        for word in " ".join(lines.values()).split():
            count[word] = count.get(word, 0) + 1
    assert min(count.values()) >= 30


def test_the_audio_is_mono_at_16_khz_at_one_peak_over_noise(tmp_path, monkeypatch):
    small(monkeypatch)
    mini.prepare(tmp_path / "data", tmp_path / "downloads", None)
    for name in mini.VARIANTS:
        data = datadir.read(tmp_path / "data" / name)
        assert len(data.text) == 6 and len(set(data.utt2spk.values())) == 2
        for utterance, path in data.wav.items():
            samples, rate = sound.load(path, utterance)
            assert rate == 16000
            assert 0.7 < len(samples) / rate < 4
            assert np.abs(samples).max() == pytest.approx(0.5, abs=0.1)
            assert np.abs(samples[:160]).max() > 0


def test_faster_and_higher_voices_are_faster_and_higher():
    def spoken(rate, pitch):
        sentences = ["turn on the red lamp in the kitchen"]
        samples, hertz = next(speak(Voice("en-us", "m3", rate, pitch), sentences))
        # the strongest period between 50 and 300 Hz
        x = samples[len(samples) // 4 :][: hertz // 2].astype(float)
        lags = np.correlate(x, x, "full")[len(x) :]
        first, last = hertz // 300, hertz // 50
        return len(samples) / hertz, hertz / (first + lags[first:last].argmax())

    seconds, hertz = spoken(140, 30)
    assert spoken(200, 30)[0] < 0.85 * seconds
    assert spoken(140, 80)[1] > 1.1 * hertz


@pytest.mark.parametrize("accent, variant", [("en-us", "nobody"), ("xx", "m3")])
def test_an_unknown_voice_is_named(accent, variant):
    with pytest.raises(RecipeError, match=rf"no voice {accent}\+{variant}"):
        next(speak(Voice(accent, variant, 160, 50), ["yes"]))


def test_an_archive_is_refused(tmp_path):
    with pytest.raises(RecipeError, match="leave out --archive x.tar"):
        mini.prepare(tmp_path, tmp_path, Path("x.tar"))
