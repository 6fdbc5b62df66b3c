# SPDX-License-Identifier: BSL-1.0
"""Runs far from the others of their cell: the machine was disturbed, or the program behaves in two ways. The median
tolerates a few; many of them say that the figures are about the machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poolbench.plan.cell import Cell
from poolbench.plan.description import Description, default
from poolbench.results.read import Results

OUTER_FENCE = 3.0  # quartile distances beyond the quartiles: Tukey's "far out"
WORTH = 0.1  # of the median: what is nearer makes no difference
FEWEST = 5  # runs: of fewer, quartiles say little


def far_out(values: Sequence[float]) -> list[float]:
    if len(values) < FEWEST:
        return []
    low, middle, high = np.percentile(values, [25, 50, 75])
    reach = max(OUTER_FENCE * (high - low), WORTH * middle)
    return [value for value in values if value > high + reach or value < low - reach]


def find(results: Results, descriptions: dict[str, Description]) -> dict[Cell, list[float]]:
    """The cells that have such runs, by the figure that each is about: the runs, as multiples of the median."""
    values: dict[Cell, list[float]] = {}
    for cell, sample in results.samples:
        measure = (descriptions.get(cell.workload) or default(cell.workload)).measure_of(cell.variant)
        value = sample.get("figures", {}).get(measure, sample["ns_per_op"])
        values.setdefault(cell, []).append(float(value))
    return {
        cell: [value / float(np.median(all_of)) for value in far]
        for cell, all_of in values.items()
        if np.median(all_of) > 0 and (far := far_out(all_of))
    }


def in_words(found: dict[Cell, list[float]], cells: int) -> str:
    """Empty when there are none."""
    if not found:
        return ""
    worst, ratios = max(found.items(), key=lambda pair: max(pair[1]))
    return (
        f"{len(found)} of {cells} cells have runs far outside the others, up to {max(ratios):.1f} times the median "
        f"({worst}): something disturbed the machine. The medians tolerate a few; "
        "measure on a quiet machine or with --pin"
    )
