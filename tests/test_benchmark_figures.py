"""What benchmarks/ reckons from what it has measured."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch
from data.small_encoder import SMALL

from espnet_srupp.recipe.datadir import DataDir
from espnet_srupp.recipe.epochs import Epoch
from espnet_srupp.recipe.errors import RecipeError

pytestmark = pytest.mark.once

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
RATE = 8000


@pytest.fixture
def script(monkeypatch):
    """Imports a script by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module


def test_a_ctc_has_begun_to_learn_once_the_validation_set_says_so(script):
    trained = [
        Epoch(number, {"cer_ctc": 0.1}, {"cer_ctc": rate}, 1.0)
        for number, rate in enumerate((0.9, 0.5, 0.4), 1)
    ]
    study = script("study")
    assert study.below_half(trained) == 3
    assert study.below_half(trained[:2]) is None


def test_an_error_rate_is_that_of_words_not_of_sentences(script, tmp_path):
    result = tmp_path / "result.txt"
    result.write_text("| Sum/Avg | 130 773 | 92.8 5.4 1.8 0.4 7.6 30.0 |\n")
    assert script("study").error_rate(result) == 7.6


@pytest.mark.parametrize(("train", "operations"), [(False, 20), (True, 60)])
def test_a_backward_pass_has_twice_the_operations(
    script, monkeypatch, train, operations
):
    encoder = script("encoder")
    monkeypatch.setattr(encoder, "profile", lambda *_: [SimpleNamespace(flops=10)])
    given = {"encoder": None, "input_size": 80}
    assert encoder.flops(given, torch.tensor([5, 4]), train) == operations


def test_twice_as_fast_is_a_ratio_of_two_to_the_first(script, monkeypatch):
    encoder = script("encoder")
    times = {"first": 4.0, "second": 2.0}
    meter = SimpleNamespace(train=False, peak=lambda: 1e9, time=times.__getitem__)
    monkeypatch.setattr(encoder, "prepare", lambda given, *_: given["name"])
    monkeypatch.setattr(encoder, "memory_beside", lambda *_: 2**20)
    monkeypatch.setattr(encoder, "flops", lambda *_: 1e9)
    given = {
        Path(name): {"name": name, "encoder": torch.nn.Module(), "parameters": 1}
        for name in times
    }
    rows = encoder.compare("x", torch.tensor([5]), given, meter, 3)
    assert [row["ratio"] for row in rows] == [1, 2]
    assert [row["ms"] for row in rows] == [4000, 2000]
    assert [row["peak"] for row in rows] == [0.25, 0.5]
    assert rows[0]["mib"] == 1


def test_a_product_of_matrices_has_two_operations_for_a_multiply_add(
    script, monkeypatch
):
    meter = script("encoder_meter").Meter("cpu", torch.float32, False)
    monkeypatch.setattr(torch, "mm", lambda *_: None)
    monkeypatch.setattr(meter, "time", lambda run: 2.0)
    assert meter.peak() == 2048**3


def test_a_rate_of_speech_is_by_the_segment(script):
    # four letters, and a blank between two that are equal
    data = DataDir({"r": "x"}, {"a": "ALLO"}, {"a": "s"}, {"a": ("r", 8.0, 10.0)})
    assert script("speaking_rate").rate(data, "a") == 2.5


def test_times_real_time_are_seconds_of_audio_by_seconds_of_work(script):
    row = {"audio_seconds": 60.0, "computing_seconds": 6.0, "peak_bytes": 2**30}
    said = script("longform").said(row)
    assert (
        "6.0 s, " in said and " 10.0 times real time, " in said and "1.00 GiB" in said
    )


def test_a_word_that_begins_with_its_sound_is_0_s_off(script, tmp_path):
    (tmp_path / "audio").mkdir()
    rng = np.random.default_rng(0)
    silence, sound = 1e-4 * rng.standard_normal(RATE), rng.standard_normal(RATE)
    soundfile.write(
        tmp_path / "audio" / "r.flac", np.r_[silence, silence, sound / 9, silence], RATE
    )
    rows = ["recording,utterance,start_sample,samples,start,seconds"]
    rows.append(f"r,a,{RATE},{3 * RATE},1.000000,3.000000")
    (tmp_path / "provenance.csv").write_text("\n".join(rows))
    # another utterance's, one that begins too late, and one that ends too early
    words = [("C", 0.5, 0.9), ("A", 2.1, 2.3), ("B", 2.5, 2.8)]
    given = [dict(zip(("text", "start", "end"), word, strict=True)) for word in words]
    (tmp_path / "r.json").write_text(json.dumps({"words": given}))
    times = script("word_times")
    (start,), (end,) = times.errors({"a": "A B"}, tmp_path, tmp_path)
    assert start == pytest.approx(0.1, abs=times.FRAME)
    assert end == pytest.approx(-0.2, abs=times.FRAME)
    assert times.errors({"a": "D A B D"}, tmp_path, tmp_path) == ([], [])
    # nothing is louder than the rest
    soundfile.write(tmp_path / "audio" / "r.flac", np.r_[silence, silence], RATE)
    assert times.errors({"a": "A B"}, tmp_path, tmp_path) == ([], [])


@pytest.mark.parametrize("rate", [16000, 11025])
def test_sound_is_found_where_it_is_at_any_rate(script, rate):
    rng = np.random.default_rng(0)
    samples = 1e-4 * rng.standard_normal(20 * rate)
    samples[5 * rate : 15 * rate] = rng.standard_normal(10 * rate)
    times = script("word_times")
    assert times.edges(samples, rate) == pytest.approx((5, 15), abs=times.FRAME)


def test_of_words_none_of_which_is_right_no_time_is_told(script, tmp_path, monkeypatch):
    times = script("word_times")
    results, target = {"whole": "w", "a": "b"}, tmp_path / "figures.json"
    given = SimpleNamespace(
        data=tmp_path, joined=tmp_path, results=results, json=target
    )
    found = iter([([0.5], [0.5]), ([], [])])
    monkeypatch.setattr(times, "parse", lambda: given)
    monkeypatch.setattr(times.datadir, "read", lambda _: SimpleNamespace(text={}))
    monkeypatch.setattr(times, "errors", lambda *_: next(found))
    with pytest.raises(RecipeError, match="a: no start of .* is right"):
        times.main()
    # what was told before is not lost
    assert list(json.loads(target.read_text())["models"]) == ["whole"]


def test_gradients_are_not_of_more_utterances_than_there_are(script, monkeypatch):
    gradients = script("gradients")
    for name in ("build_preprocess_fn", "build_collate_fn"):
        monkeypatch.setattr(gradients.ASRTask, name, lambda *_, **__: None)
    monkeypatch.setattr(gradients, "ESPnetDataset", lambda *_: iter(range(39)))
    config = SimpleNamespace(output_dir="exp/a", train_data_path_and_name_and_type=[])
    with pytest.raises(RecipeError, match="exp/a: .* 39 utterances, fewer than 2 "):
        next(gradients.draw(config, 2))


@pytest.fixture
def kept_memory(script, monkeypatch):
    """The script, whose two processes are this one, in which nothing is kept."""
    module = script("kept_memory")

    class Pool(ThreadPoolExecutor):
        def __init__(self, *_):
            super().__init__(1)

    monkeypatch.setattr(module, "ProcessPoolExecutor", Pool)
    return module


def test_a_ratio_of_times_is_that_with_memory_kept_to_that_without(
    kept_memory, monkeypatch
):
    def train(*given):
        taken = 2.0 if given[-1] else 4.0
        return {"ms": taken, "faults": 0, "system": 0, "mib": 0, "parameters": [1.0]}

    monkeypatch.setattr(kept_memory, "train", train)
    assert kept_memory.pair(Path("x"), 1, [0], [1])["ratio"] == 0.5


def test_trainings_that_end_differently_have_no_ratio(kept_memory, monkeypatch):
    monkeypatch.setattr(kept_memory, "train", lambda *given: {"parameters": given[-1]})
    with pytest.raises(SystemExit, match="different parameters"):
        kept_memory.pair(Path("x"), 1, [0], [1])


def test_the_same_steps_end_with_the_same_parameters(kept_memory, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(json.dumps({"encoder": "srupp", "encoder_conf": SMALL}))
    cpus = sorted(os.sched_getaffinity(0))
    first, second = (kept_memory.train(path, 2, cpus, keep=False) for _ in range(2))
    assert first["parameters"] == second["parameters"]
    assert len(first["times"]) == 2
    assert min(first["ms"], first["mib"]) > 0
