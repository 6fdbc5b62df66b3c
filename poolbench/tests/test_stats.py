# SPDX-License-Identifier: BSL-1.0
"""The doors to SciPy, on samples whose answers are known."""

import numpy as np

from poolbench.analysis import stats


def test_the_interval_of_a_median_of_five_is_their_range():
    # By the binomial distribution it misses the true median with probability 2 / 2^5 only.
    assert stats.median_interval([3, 1, 2, 5, 4]) == (1, 5)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    samples = list(rng.lognormal(0, 0.2, (400, 15)))
    held = sum(low <= 1 <= high for low, high in stats.all_intervals(np.median, samples))
    assert 0.91 <= held / 400 <= 0.99


def test_the_interval_of_a_ratio_holds_the_true_ratio_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    above, below = list(rng.lognormal(np.log(1.5), 0.2, (400, 12))), list(rng.lognormal(0, 0.2, (400, 9)))
    held = sum(low <= 1.5 <= high for low, high in stats.all_intervals(stats.ratio_of_medians, above, below))
    assert 0.91 <= held / 400 <= 0.99


def test_samples_that_are_all_alike_have_an_interval_of_no_width():
    assert stats.median_interval([64.0] * 5) == (64, 64)
    assert stats.half_width([0.0] * 5) == 0
    assert stats.half_width([0.0, 0.0, 0.0, 1.0, 1.0]) == float("inf")


def test_the_least_of_several_is_uncertain_too():
    rng = np.random.default_rng(8)
    alike = [list(rng.normal(100, 5, 9)) for _ in range(4)]
    low, high = stats.least_ratio_interval(alike, [50.0] * 9)
    assert low < min(np.median(each) for each in alike) / 50 <= high
