# SPDX-License-Identifier: BSL-1.0
"""The statistics, all of them SciPy's and NumPy's. A sample is a whole process run; nothing here pools what one process
measured with what another did.

Times of a process are skewed: a busy machine makes a run slower, nothing makes it faster. So the middle is the median,
intervals are the bootstrap's.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
RESAMPLES = 4000
RESAMPLES_AT_ONCE = 500  # of a few hundred samples: some megabytes
SEED = 20240229  # the same samples give the same interval, whenever and wherever they are judged

Interval = tuple[float, float]


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def ratio(*samples, axis=-1):
    """The least median of all but the last, over that of the last. Each resample has its own least."""
    *above, below = (np.median(each, axis=axis) for each in samples)
    return np.min(above, axis=0) / below


def intervals(statistic: Callable, *stacks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bootstrap's percentile intervals, lower and upper ends, of a statistic of independent samples. Each row of a
    stack is a sample, and row i of all stacks together one question. Percentiles, for the corrections of BCa break down
    where a median takes few values. One run alone shows no spread: then the interval is everything there is."""
    rows = len(stacks[0])
    if any(stack.shape[-1] < 2 for stack in stacks):
        return np.zeros(rows), np.full(rows, np.inf)
    settings = {"n_resamples": RESAMPLES, "batch": RESAMPLES_AT_ONCE, "confidence_level": CONFIDENCE}
    settings |= {"method": "percentile", "vectorized": True, "rng": np.random.default_rng(SEED)}
    found = stats.bootstrap(stacks, statistic, axis=-1, **settings).confidence_interval
    return found.low, found.high


def interval(statistic: Callable, *samples: Sequence[float]) -> Interval:
    """The same for one question."""
    return all_intervals(statistic, *([sample] for sample in samples))[0]


def ratio_interval(above: Sequence[Sequence[float]], below: Sequence[float]) -> Interval:
    return interval(ratio, *above, below)


def all_intervals(statistic: Callable, *columns: Sequence[Sequence[float]]) -> list[Interval]:
    """Of many questions at once. Those whose samples have the same lengths are stacked."""
    by_lengths: dict[tuple[int, ...], list[int]] = {}
    for row, samples in enumerate(zip(*columns, strict=True)):
        by_lengths.setdefault(tuple(map(len, samples)), []).append(row)
    found: list[Interval] = [(0.0, float("inf"))] * len(columns[0])
    for rows in by_lengths.values():
        stacks = [np.asarray([column[row] for row in rows], dtype=float) for column in columns]
        for row, low, high in zip(rows, *intervals(statistic, *stacks), strict=True):
            found[row] = (float(low), float(high))
    return found


def half_width(values: Sequence[float]) -> float:
    """Of the median's interval, as a share of the median: what a run makes narrow."""
    low, high = interval(np.median, values)
    if low == high:
        return 0.0
    middle = median(values)
    return (high - low) / 2 / middle if middle > 0 else float("inf")
