# SPDX-License-Identifier: BSL-1.0
"""A figure with an interval of each cell: a row (a dict) a cell and measure.

The figure is the median of the processes or, of a measure whose name ends in "_worst", the largest. That has no
interval: another process might be worse, and more processes find worse ones."""

from collections import Counter
from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from poolbench.analysis import stats
from poolbench.plan.cell import Cell
from poolbench.plan.description import ALL, TIME, Where
from poolbench.results.read import ENOUGH, MOVED, Results, hand_over, is_figure

WORST = "_worst"
Rows = list[dict]  # of the cell, its fields, measure, values, n (runs), median, low, high


def _compared(results: Results) -> list[tuple[Cell, dict]]:
    """The samples without those that were taken while the processors were further apart, where a cell has enough
    others: a hypervisor moves them, and contenders compare only where a word takes as long from one to the other."""
    words = [hand_over(sample) for _, sample in results.samples]
    limit = MOVED * min(filter(None, words), default=0.0)
    near = Counter(cell for (cell, _), word in zip(results.samples, words, strict=True) if word <= limit)
    return [(cell, sample) for (cell, sample), word in zip(results.samples, words, strict=True)
            if word <= limit or near[cell] < ENOUGH]  # fmt: skip


def collect(results: Results, paired: bool = False) -> dict[tuple[Cell, str], list[float]]:
    """The samples of each cell and measure, in the order in which they were taken; all of them if run k of one cell is
    compared with run k of another, its neighbour in time."""
    found: dict[tuple[Cell, str], list[float]] = {}
    for cell, sample in results.samples if paired else _compared(results):
        found.setdefault((cell, TIME), []).append(float(sample["ns_per_op"]))
        for name, value in sample.get("figures", {}).items():
            if is_figure(value):
                found.setdefault((cell, name), []).append(float(value))
    return found


def estimates(results: Results) -> Rows:
    found = collect(results)
    values = [[max(samples)] if measure.endswith(WORST) else samples for (_, measure), samples in found.items()]
    intervals = stats.all_intervals(np.median, values)
    return [
        {"cell": cell, **vars(cell), "measure": measure, "values": samples, "n": len(found[cell, measure]),
         "median": stats.median(samples), "low": low, "high": high}
        for (cell, measure), samples, (low, high) in zip(found, values, intervals, strict=True)
    ]  # fmt: skip


def matching(rows: Rows, where: Where) -> Rows:
    """Those whose columns have these values; a list means any of them, "all" means whatever."""
    wanted = {name: value if isinstance(value, list) else [value] for name, value in where.items() if value != ALL}
    return [row for row in rows if all(row[name] in values for name, values in wanted.items())]


def fastest_first(rows: Iterable[dict]) -> Rows:
    return sorted(rows, key=itemgetter("median"))


def fastest(rows: Rows) -> dict | None:
    return min(rows, key=itemgetter("median"), default=None)
