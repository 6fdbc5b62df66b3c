# SPDX-License-Identifier: BSL-1.0
import math

import pytest

from poolbench.stats import median, ratio, spread


@pytest.mark.parametrize(("values", "expected"), [([3, 1, 2], 2), ([4, 1], 2.5), ([7], 7), ([1, math.nan, 3], 2)])
def test_the_median_is_the_middle_of_the_finite_values(values, expected):
    assert median(values) == expected


def test_nothing_measured_has_no_median_rather_than_zero():
    assert median([]) is None
    assert median([math.inf, math.nan]) is None


@pytest.mark.parametrize(("numerator", "denominator"), [(None, 1.0), (1.0, None), (1.0, 0.0), (1.0, -2.0)])
def test_a_ratio_with_a_side_missing_is_missing(numerator, denominator):
    assert ratio(numerator, denominator) is None


def test_a_ratio_divides():
    assert ratio(3.0, 2.0) == 1.5


def test_the_spread_is_the_range_over_the_median():
    assert spread([9, 10, 12]) == pytest.approx(0.3)
    assert spread([]) is None
