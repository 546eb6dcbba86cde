"""`longform transcribe` from files to files."""

import argparse
import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import soundfile
import torch
from data.small_models import RATE, espnets_texts, noise

from espnet_srupp.longform import decoder, model, usage
from espnet_srupp.longform import transcribe as command
from espnet_srupp.recipe import scoring
from espnet_srupp.recipe.progress import Progress

SEARCHES = ("greedy", "prefix", "joint")


def found(folder, name):
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


def test_text_alone_goes_to_standard_output(transcribe):
    code, out, errors = transcribe("wav/a.flac", "wav/b.flac")
    assert (code, errors) == (0, [])
    assert [line.split(" ")[0] for line in out.splitlines()] == ["a", "b"]
    assert all(len(line.split()) > 1 for line in out.splitlines())


@pytest.mark.once
def test_what_espnet_lacks_is_not_told_to_people(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(RATE), RATE)
    words = [sys.executable, "-m", "espnet_srupp.longform", "transcribe", "no", "a.wav"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    sentence = "error: no is missing: give an experiment's folder or a zip\n"
    assert (done.stdout, done.stderr) == ("", sentence)


@pytest.mark.parametrize("search", ["greedy", "prefix", "joint"])
@pytest.mark.parametrize("encoder", ["srupp", "conformer"])
def test_a_data_directory_becomes_results(transcribe, tmp_path, encoder, search):
    words = ("data", "--out", tmp_path, "--search", search, "--beam-size", "3")
    code, out, _ = transcribe(*words, model=f"exp/asr_{encoder}")
    assert (code, out) == (0, "")
    texts = scoring.read_hypotheses(tmp_path / "text")
    used = usage.read(tmp_path / "longform.jsonl")
    assert list(texts) == list(used) == ["a", "b", "c"]
    for name, text in texts.items():
        item = found(tmp_path, name)
        assert item["text"] == text == " ".join(w["text"] for w in item["words"])
        times = [0, *(w[t] for w in item["words"] for t in ("start", "end")), 1.5]
        assert times == sorted(times)
        assert used[name].audio_seconds == 1.5
        cue = "1\n00:00:0" if text else ""
        assert (tmp_path / f"{name}.srt").read_text("utf-8").startswith(cue)
    # a random decoder may say nothing
    assert all(texts.values()) or search == "joint"


def test_audio_that_lacks_what_the_model_hears_is_warned_of_once(transcribe, tmp_path):
    paths = []
    for name, rate in (("a", RATE), ("b", RATE // 2), ("c", RATE // 2)):
        paths.append(tmp_path / f"{name}.wav")
        soundfile.write(paths[-1], noise(rate), rate)
    assert transcribe(*paths[:1])[2] == []
    code, out, (warning,) = transcribe(*paths)
    assert code == 0 and len(out.splitlines()) == 3
    assert f"{paths[1]} is sampled at {RATE // 2} Hz" in warning


# by CTC alone too, where there is no decoder to say which tokens are worth a try
@pytest.mark.parametrize(("beam", "weight"), [(4, 0.3), (2, 1.0)])
def test_joint_search_within_a_window_is_espnets(
    transcribe, transcribable, tmp_path, beam, weight
):
    options = ("--search", "joint", "--beam-size", beam, "--ctc-weight", weight)
    transcribe("data", "--out", tmp_path, *options)
    texts = scoring.read_hypotheses(tmp_path / "text").values()
    expected = espnets_texts(transcribable, beam_size=beam, ctc_weight=weight)
    assert [text.split() for text in texts] == list(expected)


def test_joint_search_goes_on_over_windows(transcribe, transcribable, tmp_path):
    soundfile.write(tmp_path / "long.flac", noise(40_000), RATE)
    options = ("--search", "joint", "--window", "2", "--overlap", "0.5")
    more = ("--out", tmp_path, "--beam-size", "2", "--ctc-weight", "1")
    code, *_ = transcribe(tmp_path / "long.flac", *options, *more)
    assert code == 0
    times = [w["start"] for w in found(tmp_path, "long")["words"]]
    assert times == sorted(times) and times[0] < 2 and times[-1] > 8


@pytest.mark.parametrize("weight", ["0", "0.3", "1"])
def test_a_joint_beam_may_be_larger_than_the_vocabulary(transcribe, weight):
    words = ("wav/a.flac", "--search", "joint", "--ctc-weight", weight)
    assert transcribe(*words)[0] == 0
    assert transcribe(*words, "--beam-size", "100") == transcribe(*words)


def test_segments_are_decoded_alone(transcribe, transcribable, tmp_path):
    (tmp_path / "data").mkdir()
    joined = np.concatenate([noise(6000, seed) for seed in range(3)])
    soundfile.write(tmp_path / "all.wav", joined, RATE)
    (tmp_path / "data" / "wav.scp").write_text(f"all {tmp_path}/all.wav\n")
    times = "".join(f"{n} all {1.5 * i} {1.5 * i + 1.5}\n" for i, n in enumerate("abc"))
    (tmp_path / "data" / "segments").write_text(times)
    _, expected, _ = transcribe("data")
    _, out, _ = transcribe(tmp_path / "data")
    assert out == expected


def test_progress_is_told_to_its_end(transcribe, tmp_path):
    # no whole number of seconds
    soundfile.write(tmp_path / "c.flac", noise(RATE * 5 // 4), RATE)
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "update", lambda self, done: told.append((done, self)))
        transcribe(tmp_path / "c.flac")
    done, progress = told[-1]
    assert progress.title == "transcribing" and done == progress.total > 0


def test_what_is_there_is_not_decoded_again(transcribe, tmp_path, monkeypatch):
    transcribe("wav/a.flac", "wav/b.flac", "--out", tmp_path)
    decoded = []
    decode = decoder.Decoder.transcribe

    def counted(self, source, *rest):
        decoded.append(source.name)
        return decode(self, source, *rest)

    monkeypatch.setattr(decoder.Decoder, "transcribe", counted)
    before = found(tmp_path, "a")
    transcribe("wav/a.flac", "wav/c.flac", "--out", tmp_path)
    assert decoded == ["c"] and found(tmp_path, "a") == before
    transcribe("./wav/a.flac", "--out", tmp_path)
    assert decoded == ["c"]
    assert (tmp_path / "text").read_text().split()[0] == "a"
    transcribe("wav/a.flac", "--out", tmp_path, "--search", "prefix")
    transcribe("wav/a.flac", "--out", tmp_path, "--dtype", "bfloat16")
    transcribe("wav/c.flac", "--out", tmp_path, model="exp/asr_conformer")
    transcribe("wav/c.flac", "--out", tmp_path, "--force", model="exp/asr_conformer")
    assert decoded == ["c", "a", "a", "c", "c"]


def test_no_text_is_of_two_models(transcribe, tmp_path, monkeypatch):
    transcribe("wav/a.flac", "wav/b.flac", "--out", tmp_path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(decoder.Decoder, "transcribe", interrupted)
    words = ("wav/a.flac", "wav/b.flac", "--out", tmp_path)
    assert transcribe(*words, model="exp/asr_conformer")[0] == 130
    # of each recording the old result stays until there is a new one
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("a.json", "a.srt", "b.json", "b.srt")
    ]


def test_files_are_made_from_the_shortest_on_and_listed_as_given(
    transcribe, transcribable, tmp_path, monkeypatch
):
    soundfile.write(transcribable / "wav/long.flac", noise(9000), RATE)
    decoded = []
    decode = decoder.Decoder.transcribe
    monkeypatch.setattr(
        decoder.Decoder,
        "transcribe",
        lambda self, source, *rest: (
            decoded.append(source.name) or decode(self, source, *rest)
        ),
    )
    transcribe("wav/long.flac", "wav/a.flac", "--out", tmp_path)
    assert decoded == ["a", "long"]
    assert list(scoring.read_hypotheses(tmp_path / "text")) == ["long", "a"]


@pytest.mark.parametrize(("search", "part"), [("greedy", 1), ("prefix", 0.5)])
def test_progress_is_told_layer_by_layer_and_by_frames_searched(
    transcribe, monkeypatch, search, part
):
    told = []
    monkeypatch.setattr(
        command, "tell", lambda progress, passed, seconds=0, share=0: told.append(share)
    )
    monkeypatch.setattr(model, "TILE", 10)
    transcribe("wav/a.flac", "--search", search)
    *shares, end = told
    layers = [share for share in shares if share < part] + [part]
    assert layers == [part * (n + 1) / len(layers) for n in range(len(layers))]
    tiles = shares[len(layers) :]
    assert len(layers) > 1 and len(tiles) > 2
    steps = {round(b - a, 3) for a, b in pairwise([part, *tiles[:-1]])}
    assert len(steps) == 1 and (steps == {0}) == (part == 1)
    assert tiles[-1] == 1 and end == 0


def test_nothing_is_loaded_where_all_is_there(transcribe, tmp_path, monkeypatch):
    transcribe("wav/a.flac", "--out", tmp_path)
    monkeypatch.delattr(decoder, "load")
    assert transcribe("wav/a.flac", "--out", tmp_path)[0] == 0


@pytest.mark.parametrize("search", ["greedy", "prefix", "joint"])
@pytest.mark.parametrize("encoder", ["srupp", "conformer"])
def test_too_short_is_empty_text(transcribe, tmp_path, encoder, search):
    soundfile.write(tmp_path / "short.wav", noise(30), RATE)
    soundfile.write(tmp_path / "short2.wav", noise(60), RATE)
    files = (tmp_path / "short.wav", tmp_path / "short2.wav")
    code, out, errors = transcribe(
        *files, "--search", search, model=f"exp/asr_{encoder}"
    )
    assert (code, out, errors) == (0, "short\nshort2\n", [])


def test_digital_silence_works(transcribe, tmp_path):
    soundfile.write(tmp_path / "silence.wav", np.zeros(60 * RATE), RATE)
    for search in ("greedy", "prefix"):
        code, out, _ = transcribe(tmp_path / "silence.wav", "--search", search)
        assert code == 0 and out.startswith("silence")


def test_names_with_blanks_become_ids(transcribe, transcribable, tmp_path):
    path = tmp_path / "a talk of mine.flac"
    path.write_bytes((transcribable / "wav" / "a.flac").read_bytes())
    code, out, _ = transcribe(path, "--out", tmp_path)
    assert list(scoring.read_hypotheses(tmp_path / "text")) == ["a_talk_of_mine"]


def settings(tmp_path, *words, **files):
    """What a result with these words of the command line depends on."""
    parser = argparse.ArgumentParser()
    command.options(parser)
    paths = [tmp_path / name for name in ("config.yaml", "valid.acc.ave.pth")]
    for path in paths:
        path.write_text(files.get(path.stem, "x"))
    return command.settings_of(parser.parse_args(["exp", "a.wav", *words]), *paths)


@pytest.mark.parametrize(
    ("search", "option", "values", "counts"),
    [
        *((search, "--beam-size", "2 3", search != "greedy") for search in SEARCHES),
        *((search, "--ctc-weight", "0 1", search == "joint") for search in SEARCHES),
        *((search, "--window", "9 10", search == "joint") for search in SEARCHES),
        *((search, "--overlap", "1 2", search == "joint") for search in SEARCHES),
        *((search, "--dtype", "float32 bfloat16", True) for search in SEARCHES),
        *((search, "--device", "cpu cuda", False) for search in SEARCHES),
    ],
)
def test_a_result_depends_on_what_its_search_does(
    tmp_path, search, option, values, counts
):
    one, other = (
        settings(tmp_path, "--search", search, option, value)
        for value in values.split()
    )
    assert (one != other) == counts


@pytest.mark.parametrize("file", ["config", "valid.acc.ave"])
def test_a_result_depends_on_the_model_that_is_there_now(tmp_path, file):
    assert settings(tmp_path) == settings(tmp_path)
    # as a training that goes on leaves it under the same name
    assert settings(tmp_path) != settings(tmp_path, **{file: "other"})


def test_no_layer_tells_of_itself_once_a_recording_is_done():
    told, encoder = [], torch.nn.Module()
    encoder.encoders = torch.nn.ModuleList([torch.nn.Identity() for _ in range(2)])
    for count in (1, 2):
        with decoder.telling(encoder, told.append):
            for layer in encoder.encoders:
                layer(torch.zeros(1))
        assert told == [0.5, 1.0] * count
