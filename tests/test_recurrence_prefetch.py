"""The compiled code asks for memory, each line of it once."""

import numpy as np
import pytest
from numba import njit

from espnet_srupp.recurrence import prefetch


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000])
def test_each_line_of_an_array_is_asked_for_once(monkeypatch, dtype, n):
    asked = []
    monkeypatch.setattr(prefetch, "_fetch_line", lambda _, index: asked.append(index))
    array = np.zeros(n, dtype)
    prefetch.fetch.py_func(array)
    lines = [index * array.itemsize / prefetch.LINE for index in asked]
    assert lines == list(range(-(-array.nbytes // prefetch.LINE)))


def test_the_compiled_code_asks_for_memory():
    compiled = njit(prefetch.fetch.py_func)
    compiled(np.zeros(3))
    (code,) = compiled.inspect_llvm().values()
    assert "call void @llvm.prefetch" in code
