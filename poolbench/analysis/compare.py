# SPDX-License-Identifier: BSL-1.0
"""Two results files told apart.

For each cell of both: the ratio of the medians with its bootstrap interval over processes, and the Mann-Whitney test,
corrected after Holm for the number of cells. A slowdown that many cells share can be plain when no single cell of five
runs could show it; so the cells of each workload and of each contender, and all together, are also judged as one, with
a correction of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from poolbench.analysis import power, stats
from poolbench.analysis.estimate import collect
from poolbench.plan.cell import Cell
from poolbench.plan.description import Description, default
from poolbench.results.read import Results


@dataclass(frozen=True)
class Difference:
    """Of a cell, or of a group of them; a ratio above 1 means that the second file is slower (or larger)."""

    what: str
    ratio: float
    low: float
    high: float
    p: float  # after correction
    cells: int = 1
    cell: Cell | None = None
    before: float | None = None
    after: float | None = None

    @property
    def significant(self) -> bool:
        return self.p < power.ALPHA and not self.low <= 1 <= self.high

    def regression(self, above: float) -> bool:
        return self.significant and self.ratio > 1 + above

    def difference(self, above: float) -> bool:
        return self.significant and not 1 / (1 + above) <= self.ratio <= 1 + above


@dataclass(frozen=True)
class Comparison:
    cells: list[Difference]
    groups: list[Difference]
    only_first: int
    only_second: int
    samples_wanted: int  # a side, so that one cell could be told apart
    fewest_samples: int

    def regressions(self, above: float) -> list[Difference]:
        return [d for d in [*self.groups, *self.cells] if d.regression(above)]

    def agreeing_share(self, above: float) -> float:
        """The share of cells that show no significant difference of more than this."""
        return sum(not d.difference(above) for d in self.cells) / len(self.cells)


Samples = dict[Cell, list[float]]


def main_samples(results: Results, descriptions: dict[str, Description]) -> Samples:
    """Of each cell the figure it is about. A figure that is zero or less has no ratio and is left out."""
    found: Samples = {}
    for (cell, measure), values in collect(results).items():
        description = descriptions.get(cell.workload) or default(cell.workload)
        if measure == description.measure_of(cell.variant) and min(values) > 0:
            found[cell] = values
    return found


def _cells(before: Samples, after: Samples, common: list[Cell]) -> list[Difference]:
    a, b = [before[cell] for cell in common], [after[cell] for cell in common]
    bounds = stats.all_intervals(stats.ratio_of_medians, b, a)
    p_values = stats.holm([stats.mann_whitney(x, y) for x, y in zip(a, b, strict=True)])
    return [
        Difference(str(cell), y / x, low, high, p, cell=cell, before=x, after=y)
        for cell, x, y, (low, high), p in zip(
            common, map(stats.median, a), map(stats.median, b), bounds, p_values, strict=True
        )
    ]


def _groups(common: list[Cell]) -> Iterable[tuple[str, list[Cell]]]:
    yield "all cells", common
    for axis in ("workload", "contender"):
        names = sorted({getattr(cell, axis) for cell in common})
        for name in names if len(names) > 1 else ():
            members = [cell for cell in common if getattr(cell, axis) == name]
            if len(members) > 1:
                yield f"{axis} {name}", members


def _group(what: str, members: list[Cell], before: Samples, after: Samples) -> Difference:
    logs = [np.log(stats.median(after[cell]) / stats.median(before[cell])) for cell in members]
    low, high = stats.interval(np.mean, logs)
    p = stats.combined([(before[cell], after[cell]) for cell in members])
    return Difference(what, float(np.exp(np.mean(logs))), float(np.exp(low)), float(np.exp(high)), p, len(members))


def compare(first: Results, second: Results, descriptions: dict[str, Description]) -> Comparison | None:
    """None when the files have no cell in common."""
    before, after = main_samples(first, descriptions), main_samples(second, descriptions)
    common = [cell for cell in before if cell in after]
    if not common:
        return None
    groups = [_group(what, members, before, after) for what, members in _groups(common) if len(members) > 1]
    corrected = stats.holm([group.p for group in groups])
    groups = [Difference(**{**vars(group), "p": p}) for group, p in zip(groups, corrected, strict=True)]
    return Comparison(
        _cells(before, after, common),
        groups,
        len(before) - len(common),
        len(after) - len(common),
        power.samples_to_tell(len(common)),
        min(min(len(before[cell]), len(after[cell])) for cell in common),
    )
