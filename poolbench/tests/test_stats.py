# SPDX-License-Identifier: BSL-1.0
"""The doors to SciPy, on samples whose answers are known."""

import numpy as np
import pytest

from poolbench.analysis import power, stats


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


def test_many_questions_at_once_give_the_answers_that_each_gives_alone():
    samples = [[1.0, 2.0, 4.0], [3.0, 1.0, 2.0, 9.0], [5.0, 6.0, 5.5], [7.0]]
    assert stats.all_intervals(np.median, samples) == [stats.median_interval(sample) for sample in samples]


def test_one_run_shows_no_interval():
    assert stats.median_interval([2.0]) == (0, float("inf"))
    assert stats.ratio_interval([2.0], [1.0, 1.1]) == (0, float("inf"))


def test_samples_that_are_all_alike_have_an_interval_of_no_width():
    assert stats.median_interval([64.0] * 5) == (64, 64)
    assert stats.half_width([0.0] * 5) == 0
    assert stats.half_width([0.0, 0.0, 0.0, 1.0, 1.0]) == float("inf")


# P-values of R's wilcox.test, exact.
@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 0.007936508),
        ([0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46], [1.15, 0.88, 0.90, 0.74, 1.21], 0.2544123),
        ([1, 1, 1], [1, 1, 1], 1.0),
    ],
)
def test_mann_whitney_on_known_samples(a, b, p):
    assert stats.mann_whitney(a, b) == pytest.approx(p, rel=1e-6)


# p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") of R, and a case with a step that must not fall.
@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        ([0.01, 0.02, 0.03, 0.04, 0.05], [0.05, 0.08, 0.09, 0.09, 0.09]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.9, 0.8], [1, 1]),
        ([0.2], [0.2]),
    ],
)
def test_holms_correction_on_known_values(p, adjusted):
    assert stats.holm(p) == pytest.approx(adjusted)


def test_samples_of_one_distribution_are_called_different_no_oftener_than_allowed():
    rng = np.random.default_rng(3)
    families = 200
    wrong = 0
    for _ in range(families):
        pairs = rng.lognormal(0, 0.1, (10, 2, 8))
        wrong += min(stats.holm([stats.mann_whitney(a, b) for a, b in pairs])) < power.ALPHA
    assert wrong / families <= 0.08


def test_cells_that_none_of_them_can_alone_show_a_shift_together():
    rng = np.random.default_rng(4)
    pairs = [(rng.normal(100, 1, 5), rng.normal(103, 1, 5)) for _ in range(20)]
    assert min(stats.holm([stats.mann_whitney(a, b) for a, b in pairs])) > power.ALPHA
    assert stats.combined(pairs) < 1e-6
    assert stats.combined([(b, a) for a, b in pairs]) < 1e-6
    assert stats.combined([(a, a) for a, _ in pairs]) == pytest.approx(1)


@pytest.mark.parametrize(("cells", "samples"), [(1, 4), (5, 5), (20, 6), (200, 8)])
def test_so_many_runs_could_tell_one_cell_apart(cells, samples):
    assert power.samples_to_tell(cells) == samples
    apart = stats.mann_whitney(range(samples), range(100, 100 + samples))
    assert apart * cells <= power.ALPHA
