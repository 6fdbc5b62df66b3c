# SPDX-License-Identifier: BSL-1.0
"""Medians and ratios over the samples of a session. The whole-process run is the sample."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable


def median(values: Iterable[float]) -> float | None:
    """The median of the finite values; None when there is none (a failed cell is not a zero)."""
    finite = [v for v in values if math.isfinite(v)]
    return statistics.median(finite) if finite else None


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """The quotient of two medians; None when either is missing or nothing was measured below the line."""
    if numerator is None or denominator is None or denominator <= 0:
        return None
    return numerator / denominator


def spread(values: Iterable[float]) -> float | None:
    """(largest - smallest) / median: how far the samples of one cell lie apart."""
    samples = [v for v in values if math.isfinite(v)]
    middle = median(samples)
    if middle is None or middle <= 0:
        return None
    return (max(samples) - min(samples)) / middle
