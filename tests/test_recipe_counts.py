"""Rates are printed as sclite prints them."""

import pytest

from espnet_srupp.recipe import counts


@pytest.mark.parametrize(("part", "whole", "shown"), [(1, 8, "12.5"), (0, 0, "0.0")])
def test_rate_is_in_percent(part, whole, shown):
    assert counts.rate(part, whole) == shown


def test_rate_is_rounded_half_up():
    # 41 of 130 sentences is what ESPnet prints as 31.5
    assert counts.rate(41, 130) == "31.5"
    assert counts.rate(1, 400) == "0.3"
