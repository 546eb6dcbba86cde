"""Intervals and p values are those that can be worked out by hand."""

import numpy as np
import pytest

from espnet_srupp.longform import resampling
from espnet_srupp.longform.resampling import bootstrap, interval, matched_pairs


def test_equal_recordings_leave_no_doubt():
    tokens = np.array([4, 8, 12])
    rates = bootstrap(tokens[None] // 4, tokens, 100, seed=0)
    np.testing.assert_array_equal(rates, np.full((1, 100), 0.25))
    assert interval(rates[0]) == (0.25, 0.25)


def test_two_recordings_give_three_rates_with_the_right_chances():
    rates = bootstrap(np.array([[0, 10]]), np.array([10, 10]), 10000, seed=0)[0]
    values, times = np.unique(rates, return_counts=True)
    np.testing.assert_array_equal(values, [0, 0.5, 1])
    np.testing.assert_allclose(times / 10000, [0.25, 0.5, 0.25], atol=0.02)
    assert interval(rates) == (0, 1)


def test_tokens_are_weighed_not_recordings():
    rates = bootstrap(np.array([[0, 10]]), np.array([30, 10]), 1000, seed=0)[0]
    np.testing.assert_array_equal(np.unique(rates), [0, 0.25, 1])


def test_many_recordings_give_the_interval_of_the_normal_distribution():
    wrong = np.arange(400) % 5 == 0
    rates = bootstrap(wrong[None].astype(int), np.ones(400, int), 10000, seed=0)[0]
    half = 1.96 * np.sqrt(0.2 * 0.8 / 400)
    np.testing.assert_allclose(interval(rates), [0.2 - half, 0.2 + half], atol=0.004)


def test_models_are_rated_on_the_same_samples():
    errors = np.array([[1, 2, 3], [1, 2, 3], [2, 3, 4]])
    one, same, worse = bootstrap(errors, np.full(3, 10), 50, seed=0)
    np.testing.assert_array_equal(one, same)
    np.testing.assert_allclose(worse - one, 0.1)


def test_the_seed_decides():
    arguments = np.array([[1, 2, 3]]), np.full(3, 10), 50
    first, again, other = (bootstrap(*arguments, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([], 1),
        ([0, 0], 1),
        ([7], 1),
        ([1, -1], 1),
        ([3, 1], 2 / 4),
        ([1, 1, 1, 1, 1], 2 / 32),
        ([1, 1, 1, 1, -1], 12 / 32),
        ([0, 1, 1, 0, 1, 1, 1], 2 / 32),
        # where they are equal, nothing is to be exchanged
        ([1, 1, 1, *[0] * 100], 2 / 8),
    ],
)
def test_few_recordings_give_an_exact_p(differences, p):
    differences = np.array(differences, np.int64)
    assert matched_pairs(differences, 10000, seed=0) == p
    assert matched_pairs(-differences, 10000, seed=0) == p


def test_drawing_comes_near_the_exact_p():
    differences = np.array([3, 1, -2, 4, 1, 1, -1, 2, 5, -1, 1, 1])
    exact = matched_pairs(differences, 2**12, seed=0)
    drawn = matched_pairs(differences, 2**12 - 1, seed=0)
    assert exact != drawn
    assert abs(exact - drawn) < 0.02
    assert matched_pairs(-differences, 2**12 - 1, seed=0) == drawn


def test_a_p_that_is_drawn_is_never_0():
    assert matched_pairs(np.ones(1000, int), 99, seed=0) == 1 / 100


def test_memory_is_bounded_by_blocks(monkeypatch):
    monkeypatch.setattr(resampling, "CELLS", 30)
    rates = bootstrap(np.array([[1] * 7]), np.full(7, 2), 10, seed=0)
    np.testing.assert_array_equal(rates, np.full((1, 10), 0.5))
    assert list(resampling.blocks(10, 7)) == [4, 4, 2]
    assert list(resampling.blocks(2, 100)) == [1, 1]
    # six ways of two numbers would do, 8 of 3 need to be drawn
    assert matched_pairs(np.array([1, 1]), 99, seed=0) == 2 / 4
    drawn = matched_pairs(np.array([1, 1, 1, 1]), 9999, seed=0)
    assert drawn != 2 / 16 and abs(drawn - 2 / 16) < 0.01
