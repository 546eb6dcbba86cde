"""The sigmoid of the CPU's loops is exact to the last bits, and NaN stays NaN."""

import numpy as np
import pytest
from numba import njit

from espnet_srupp.recurrence.compiled import FLAGS
from espnet_srupp.recurrence.sigmoid import scale, sigmoid, unscale


@njit(error_model="numpy", fastmath=FLAGS)  # no cache, which knows tests/ alone
def all_of(numbers, results):
    for i in range(numbers.size):
        results[i] = sigmoid(scale(numbers[i]))


# bounds in kernels/README.md
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1.2e-7), ("float64", 3e-16)])
def test_error_is_below_its_bound(dtype, bound):
    far, near = np.linspace(-800, 800, 100_001), np.linspace(-9, 9, 100_001)
    ends = [np.finfo(dtype).min, np.finfo(dtype).max, -np.inf, np.inf, 0.0]
    numbers = np.concatenate([far, near, ends]).astype(dtype)
    results = np.empty_like(numbers)
    all_of(numbers, results)
    wide = np.exp(-np.abs(numbers.astype(np.longdouble)))
    exact = np.where(numbers < 0, wide, 1) / (1 + wide)
    assert np.abs(results - exact).max() < bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kind_of_nan_stays_nan(dtype):
    bits = np.arange(0x7F800001, 0x80000000, 997, dtype=np.uint32)
    numbers = np.concatenate([bits, bits | 0x80000000]).view(np.float32)
    with np.errstate(invalid="ignore"):  # of signalling ones
        numbers = numbers.astype(dtype)
    results = np.empty_like(numbers)
    all_of(numbers, results)
    assert np.isnan(results).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_scaled_is_what_was_given_when_it_is_scaled_back(dtype):
    @njit
    def there_and_back(numbers, results):
        for i in range(numbers.size):
            results[i] = unscale(scale(numbers[i]))

    numbers = np.linspace(-9, 9, 1001).astype(dtype)
    results = np.empty_like(numbers)
    there_and_back(numbers, results)
    np.testing.assert_allclose(results, numbers, rtol=2 * np.finfo(dtype).eps)
