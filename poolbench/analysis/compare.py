# SPDX-License-Identifier: BSL-1.0
"""Compares two executables that were measured in one run, a process of each in turn, or two results files: are our
contenders slower in the second?

In one run, run k of both were neighbours in time, so that their quotient is free of what both met. Of a cell the median
of the quotients counts; of two files the quotient of the medians, which holds what the machine did as well; of a group
of cells (a contender, a workload, all of ours) the geometric mean of these; the intervals are the bootstrap's. That two
things are alike is shown like everything else, by an interval within the margin; what shows neither a difference nor
equality is undecided.
"""

import enum
import math
from dataclasses import dataclass

import numpy as np

from poolbench.analysis import stats
from poolbench.analysis.estimate import collect
from poolbench.plan.cell import Cell
from poolbench.plan.description import Description, default
from poolbench.results.read import Results

Samples = dict[Cell, list[float]]


Verdict = enum.StrEnum("Verdict", "equal faster slower undecided")


@dataclass(frozen=True)
class Difference:
    """Of a cell, or of a group of them; a ratio above 1 means that the second is slower (or larger)."""

    what: str
    ratio: float
    low: float
    high: float
    cells: int = 1
    cell: Cell | None = None
    before: float | None = None
    after: float | None = None

    def verdict(self, within: float) -> Verdict:
        if self.low > 1 or self.high < 1:
            return Verdict.slower if self.low > 1 else Verdict.faster
        return Verdict.equal if 1 / (1 + within) < self.low and self.high < 1 + within else Verdict.undecided

    def regression(self, above: float) -> bool:
        return self.low > 1 and self.ratio > 1 + above


def main_samples(results: Results, descriptions: dict[str, Description]) -> Samples:
    """Of each cell the figure it is about. A figure that is zero or less has no ratio and is left out."""
    found: Samples = {}
    for (cell, measure), values in collect(results, paired=True).items():
        description = descriptions.get(cell.workload) or default(cell.workload)
        if measure == description.measure_of(cell.variant) and min(values) > 0:
            found[cell] = values
    return found


def judge(before: Samples, after: Samples, paired: bool = True) -> tuple[list[Difference], list[Difference]]:
    """(groups, cells). One pair of runs shows no interval: it is everything there is."""
    rng = np.random.default_rng(stats.SEED)
    middles: dict[Cell, float] = {}
    draws: dict[Cell, np.ndarray] = {}  # logarithms, as are the middles
    cells: list[Difference] = []

    def difference(what: str, middle: float, drawn: np.ndarray | None, **more) -> Difference:
        if drawn is None:
            return Difference(what, math.exp(middle), 0.0, math.inf, **more)
        ends = np.percentile(drawn, [50 * stats.ALPHA, 100 - 50 * stats.ALPHA])
        return Difference(what, math.exp(middle), *(math.exp(end) for end in np.clip(ends, -700, 700)), **more)

    def resampled(values: np.ndarray) -> np.ndarray:
        return np.median(rng.choice(values, (stats.RESAMPLES, len(values))), axis=1)

    for cell in before:
        if not after.get(cell):
            continue
        old, new = np.log(before[cell]), np.log(after[cell])
        runs = min(len(old), len(new))
        quotients = new[:runs] - old[:runs] if paired else np.median(new, keepdims=True) - np.median(old)
        middles[cell] = float(np.median(quotients))
        if runs > 1:
            draws[cell] = resampled(quotients) if paired else resampled(new) - resampled(old)
        both = {"before": stats.median(before[cell]), "after": stats.median(after[cell])}
        cells.append(difference(str(cell), middles[cell], draws.get(cell), cell=cell, **both))
    named = {"all of them": list(draws)}
    for axis in ("contender", "workload"):
        for cell in sorted(draws, key=lambda cell: getattr(cell, axis)):
            named.setdefault(f"{axis} {getattr(cell, axis)}", []).append(cell)
    groups = [
        difference(what, float(np.mean([middles[c] for c in members])), np.mean([draws[c] for c in members], axis=0),
                   cells=len(members))
        for what, members in named.items() if len(members) > 1
    ]  # fmt: skip
    return groups, cells
