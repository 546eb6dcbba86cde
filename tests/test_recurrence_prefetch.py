"""Memory is asked for ahead of the loops, and nothing else happens to it."""

import numpy as np
import pytest
from numba import njit

from espnet_srupp.recurrence.prefetch import fetch


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000])
def test_an_array_stays_as_it_is(dtype, n):
    array = np.arange(n).astype(dtype)
    fetch(array)
    assert (array == np.arange(n)).all()


def test_the_compiled_code_asks_for_memory():
    compiled = njit(fetch.py_func)
    compiled(np.zeros(3))
    (code,) = compiled.inspect_llvm().values()
    assert "call void @llvm.prefetch" in code
