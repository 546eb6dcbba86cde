"""What every test has: a fixed seed, and CUDA where a test asks for it."""

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
