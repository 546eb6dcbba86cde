"""`longform transcribe` names what it cannot do, and does the rest."""

import re

import numpy as np
import pytest
import soundfile
import torch
from data.small_models import RATE, make, noise

from espnet_srupp.longform import decoder
from espnet_srupp.longform import transcribe as command
from espnet_srupp.recipe import scoring


def test_audio_without_a_header_is_told_and_the_rest_is_done(transcribe, transcribable):
    (transcribable / "wav/d.raw").write_bytes(bytes(800))
    code, out, (error,) = transcribe("wav/d.raw", "wav/a.flac")
    assert code == 1 and out.startswith("a ")
    assert "wav/d.raw has no header: write it as WAV or FLAC" in error


def test_the_rest_is_done_and_each_culprit_named(transcribe, transcribable, tmp_path):
    content = (transcribable / "wav" / "b.flac").read_bytes()
    (tmp_path / "half of it.flac").write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.wav").write_bytes(b"")
    soundfile.write(tmp_path / "a.wav", noise(6000), RATE)
    bad = [tmp_path / name for name in ("half of it.flac", "empty.wav", "a.wav")]
    out = tmp_path / "out"
    code, _, errors = transcribe("no.wav", "wav/a.flac", *bad, "data", "--out", out)
    assert code == 1
    assert list(scoring.read_hypotheses(out / "text")) == ["a", "b", "c"]
    # two more of the name "a", one in the data directory
    assert len(errors) == 5
    for culprit in ("no.wav", *map(str, bad)):
        assert sum(culprit in error for error in errors) == 1
    assert not list(out.glob("half*")) and not list(out.glob(".*"))


def test_only_bad_audio_is_an_error_before_the_model_is_read(transcribe):
    code, out, errors = transcribe("no.wav", model="no_model")
    assert (code, out) == (1, "")
    assert re.fullmatch("error: no.wav is missing.*", errors[0]) and len(errors) == 1


def test_a_name_too_long_for_a_file_of_results_is_told_and_the_rest_is_done(
    transcribe, transcribable, tmp_path
):
    audio = (transcribable / "wav" / "a.flac").read_bytes()
    paths = [tmp_path / f"{name}.flac" for name in ("a", 245 * "n", "z")]
    for path in paths:
        path.write_bytes(audio)
    code, _, errors = transcribe(*paths, "--out", tmp_path / "out")
    assert code == 1 and "File name too long" in errors[-1]
    assert list(scoring.read_hypotheses(tmp_path / "out" / "text")) == ["a", "z"]


def raise_cuda():
    raise torch.OutOfMemoryError("CUDA out of memory.")


def raise_fault():
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.mark.parametrize(
    "want",
    [
        pytest.param(lambda: torch.empty(10**15), id="torch"),
        pytest.param(lambda: np.empty(10**15), id="numpy"),
        pytest.param(lambda: bytearray(10**15), id="python"),
        pytest.param(raise_cuda, id="GPU"),
    ],
)
def test_want_of_memory_is_told_and_the_rest_is_done(transcribe, monkeypatch, want):
    calls = []

    def greedy(log_probs, blank):
        calls.append(log_probs)
        if len(calls) == 1:
            want()
        return []

    monkeypatch.setattr(decoder.search, "greedy", greedy)
    code, out, errors = transcribe("wav/a.flac", "wav/b.flac")
    assert code == 1 and out == "b\n" and len(calls) == 2
    assert "wav/a.flac of 2 s needs more memory" in errors[0]


def test_a_fault_of_the_gpu_is_no_want_of_memory(transcribe, monkeypatch):
    monkeypatch.setattr(decoder.search, "greedy", lambda *_: raise_fault())
    with pytest.raises(RuntimeError, match="illegal memory access"):
        transcribe("wav/a.flac", "wav/b.flac")


def test_a_folder_that_cannot_be_written_to_is_told_before_decoding(
    transcribe, monkeypatch
):
    monkeypatch.setattr(decoder.search, "greedy", lambda *_: 1 / 0)
    code, _, errors = transcribe("wav/a.flac", "--out", "/proc/nowhere")
    assert code == 1 and len(errors) == 1
    assert "--out /proc/nowhere cannot be written to" in errors[0]


def test_what_others_made_stays_and_the_rest_is_done(transcribe, tmp_path):
    (tmp_path / "a.srt").write_text("mine")
    code, _, errors = transcribe("wav/a.flac", "wav/b.flac", "--out", str(tmp_path))
    assert code == 1 and len(errors) == 1 and "a.json or a.srt" in errors[0]
    assert (tmp_path / "a.srt").read_text() == "mine"
    assert (tmp_path / "text").read_text().split()[0] == "b"


def test_it_ends_where_nobody_reads(transcribe, monkeypatch):
    calls = []

    def broken(*_):
        calls.append(1)
        raise BrokenPipeError

    monkeypatch.setattr(command, "keep", broken)
    code, _, errors = transcribe("wav/a.flac", "wav/b.flac")
    assert code == 1 and errors == ["error: nobody reads the output any more"]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--beam-size", "0"], "--beam-size 0"),
        (["--ctc-weight", "2"], "--ctc-weight 2"),
        (["--window", "nan"], "--window nan"),
        (["--window", "0.5"], "--window 0.5"),
        (["--search", "joint", "--overlap", "11"], "--overlap 11"),
        (["--lm", "exp"], "--lm exp is of no use to --search greedy: give"),
        (["--search", "joint", "--lm", "no"], "no is missing: give the folder"),
        (["--search", "joint", "--lm", "wav"], "wav/valid.loss.ave.pth is missing"),
        (["--lm-weight", "nan"], "--lm-weight nan"),
        (["--lm-weight", "-1"], "--lm-weight -1"),
        (["--search", "best"], "best"),
        (["--checkpoint", "no.pth"], "no.pth is missing"),
    ],
    ids=" ".join,
)
def test_a_bad_option_is_one_sentence(transcribe, words, said):
    code, _, errors = transcribe("wav/a.flac", *words)
    assert code == 1 and len(errors) == 1 and said in errors[0]


def test_joint_search_needs_a_decoder(transcribe, tmp_path):
    exp = make(tmp_path, model_conf={"ctc_weight": 1.0})
    code, _, errors = transcribe("wav/a.flac", "--search", "joint", model=str(exp))
    assert code == 1 and "no decoder with attention" in errors[0]
