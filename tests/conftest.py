"""What tests share: a seed, CUDA where asked for, models and audio to transcribe."""

import importlib.util

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def pytest_runtest_setup(item):
    if item.get_closest_marker("requires_cuda") is None:
        return
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed: pip install '.[cuda12]' or '.[cuda13]'")


@pytest.fixture
def poisoned_memory(monkeypatch):
    """Fills memory handed out uninitialised with NaN, so that reading it shows."""

    def poisoned(*args, **kwargs):
        array = empty(*args, **kwargs)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        elif array.dtype == np.uint16:
            # bits of bfloat16
            array.fill(0x7FC0)
        return array

    empty = np.empty
    monkeypatch.setattr(np, "empty", poisoned)
    assert np.isnan(np.empty(3)).all()
    assert torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def processes():
    """Marks a test that needs them, where others spare their start."""


@pytest.fixture
def in_process(request, monkeypatch):
    """Spares the start of processes where `longform` would spread jobs."""
    if "processes" in request.fixturenames:
        return
    for name in ("audio", "score"):
        monkeypatch.setattr(
            f"espnet_srupp.longform.{name}.parallel_map",
            lambda function, jobs, *_: [function(job) for job in jobs],
        )


@pytest.fixture(scope="module")
def transcribable(tmp_path_factory):
    """A recipe's folder with models and audio."""
    # what tests of the recurrence do not need
    import soundfile
    from data.small_models import RATE, make, noise

    folder = tmp_path_factory.mktemp("recipe")
    make(folder)
    make(folder, "conformer")
    (folder / "wav").mkdir()
    (folder / "data").mkdir()
    for seed, name in enumerate("abc"):
        soundfile.write(folder / f"wav/{name}.flac", noise(6000, seed), RATE)
    (folder / "data" / "wav.scp").write_text(
        "".join(f"{name} {folder}/wav/{name}.flac\n" for name in "abc")
    )
    return folder


@pytest.fixture
def transcribe(transcribable, monkeypatch, capsys):
    """Runs `longform transcribe`; returns its code, output, errors and warnings."""
    from espnet_srupp.longform.__main__ import main

    monkeypatch.chdir(transcribable)

    def run(*words, model="exp/asr_srupp"):
        code = main(["transcribe", model, *map(str, words), "--device", "cpu"])
        said = capsys.readouterr()
        told = said.err.splitlines()
        marks = ("error: ", "warning: ")
        return code, said.out, [each for each in told if any(m in each for m in marks)]

    return run
