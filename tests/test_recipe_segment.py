"""Times of segments become samples of their recording, rounded ends included."""

import math

import pytest

from espnet_srupp.recipe.segment import limits

FS = 16_000
SAMPLES = round(38.7 * FS)


@pytest.mark.parametrize(
    ("end", "stop"),
    [
        (38.7, SAMPLES),
        (38.71, SAMPLES),
        (39.19, SAMPLES),
        (20.0, 20 * FS),
        (None, SAMPLES),
    ],
)
def test_an_end_a_little_behind_the_recordings_is_cut_to_it(end, stop):
    assert limits(1.5, end, FS, SAMPLES) == (24_000, stop)


@pytest.mark.parametrize("end", [39.2, 50.0, 1e308, math.inf])
def test_an_end_far_behind_it_stays_there(end):
    begin, stop = limits(1.5, end, FS, SAMPLES)
    assert begin == 24_000 and stop > SAMPLES


@pytest.mark.parametrize("times", [(38.7, 38.71), (38.8, 38.9), (1e307, 1e308)])
def test_a_segment_that_begins_at_the_end_is_not_cut(times):
    begin, stop = limits(*times, FS, SAMPLES)
    assert begin >= SAMPLES and stop > SAMPLES


@pytest.mark.parametrize("rate", [2, 8000, 11_025, 44_100])
def test_an_end_half_a_second_behind_it_is_not_cut(rate):
    assert limits(0.0, 10.5, rate, 10 * rate)[1] > 10 * rate


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
def test_times_in_hundredths_are_the_samples_that_they_name(rate):
    # many a product, as 0.29 * 16000 ** 1.0, is a little less than the whole number
    for number in range(1000):
        begin, stop = limits(number / 100, number / 100 + 0.01, rate, 20 * rate)
        assert begin == number * rate // 100
        assert stop == (number + 1) * rate // 100
