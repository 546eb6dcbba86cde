"""Rates are printed as sclite prints them."""

import pytest

from espnet_srupp.recipe import counts
from espnet_srupp.recipe.counts import Counts


@pytest.mark.parametrize(("part", "whole", "shown"), [(1, 8, "12.5"), (0, 0, "0.0")])
def test_rate_is_in_percent(part, whole, shown):
    assert counts.rate(part, whole) == shown


def test_rate_is_rounded_half_up():
    # 41 of 130 sentences is what ESPnet prints as 31.5
    assert counts.rate(41, 130) == "31.5"
    assert counts.rate(1, 400) == "0.3"


def test_counts_add_up_to_a_row_of_sclites():
    parts = [
        Counts(130, 773, 696, 52, 25, 4, 41),
        Counts(1, 2, 0, 1, 1, 3, 1),
    ]
    added = sum(parts, Counts())
    assert added == Counts(131, 775, 696, 53, 26, 7, 42)
    assert added.errors == 86
    row = "131 775 89.8 6.8 3.4 0.9 11.1 32.1".split()
    assert added.row() == row
