# SPDX-License-Identifier: BSL-1.0
"""One row a cell: what tables and the report show of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from poolbench.analysis import stats
from poolbench.analysis.estimate import Rows, estimates
from poolbench.plan.cell import Cell
from poolbench.plan.description import MAIN_TOOLCHAIN, TIME, Description, default, order
from poolbench.results.read import Results


@dataclass(frozen=True)
class Figure:
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    cell: Cell
    runs: int
    time: Figure | None  # ns_per_op; None: it failed before the first result
    figures: dict[str, Figure]
    base: str
    ratio: Figure | None  # to the base contender on the same malloc, toolchain and point
    failure: str = ""

    def group(self) -> tuple:
        """Rows of one group differ in contender, malloc, toolchain and optimisation only: they may be compared."""
        cell = self.cell
        return (cell.workload, cell.variant, cell.payload, cell.threads, cell.live, cell.step)


@dataclass
class Group:
    """What one table shows."""

    description: Description
    variant: str
    parameters: str
    operation: str
    rows: list[Row] = field(default_factory=list)

    @property
    def title(self) -> str:
        parts = [self.description.title, f"variant {self.variant}", self.parameters]
        return ", ".join(part for part in parts if part)

    def only(self, kept: set[Cell]) -> Group:
        return replace(self, rows=[row for row in self.rows if row.cell in kept])

    def headings(self) -> dict[str, str]:
        """The figures beside the time that any row has, with their headings."""
        there = {name for row in self.rows for name in row.figures}
        known = self.description.figures
        return {name: known.get(name, name) for name in [*known, *sorted(there - set(known))] if name in there}


def rows(results: Results, descriptions: dict[str, Description], estimated: Rows | None = None) -> list[Row]:
    found: dict[Cell, dict[str, dict]] = {}  # cell -> measure -> estimate
    for row in estimates(results) if estimated is None else estimated:
        found.setdefault(row["cell"], {})[row["measure"]] = row
    failures = results.failed_cells()
    base_of = {
        cell: (descriptions.get(cell.workload) or default(cell.workload)).base_of(cell.variant)
        for cell in {**found, **failures}
    }
    times = {cell: measures[TIME] for cell, measures in found.items() if TIME in measures}
    of_peer = {replace(cell, scale=1.0): row for cell, row in times.items()}
    below = {cell: of_peer.get(replace(cell, scale=1.0, contender=base_of[cell])) for cell in times}
    pairs = {cell: (times[cell]["values"], base["values"]) for cell, base in below.items() if base}
    bounds = stats.all_intervals(stats.ratio, *([pair[side] for pair in pairs.values()] for side in (0, 1)))
    ratios = {
        cell: Figure(times[cell]["median"] / below[cell]["median"], low, high)
        for cell, (low, high) in zip(pairs, bounds, strict=True)
    }
    made = []
    for cell, base in base_of.items():
        figures = {
            name: Figure(each["median"], each["low"], each["high"]) for name, each in found.get(cell, {}).items()
        }
        why = str(failures[cell].get("reason", "failed")) if cell in failures else ""
        runs = times[cell]["n"] if cell in times else 0
        made.append(Row(cell, runs, figures.pop(TIME, None), figures, base, ratios.get(cell), why))
    return made


def groups(results: Results, descriptions: dict[str, Description], estimated: Rows | None = None) -> list[Group]:
    """In the order of the workloads, then of the plan; within a group fastest first."""
    operations = {(cell.workload, cell.variant): sample.get("operation", "") for cell, sample in results.samples}
    found: dict[tuple, Group] = {}
    for row in sorted(rows(results, descriptions, estimated), key=lambda row: order(row.cell.workload)):
        cell = row.cell
        if row.group() not in found:
            description = descriptions.get(cell.workload) or default(cell.workload)
            operation = operations.get((cell.workload, cell.variant), "")
            found[row.group()] = Group(description, cell.variant, cell.parameters(), operation)
        found[row.group()].rows.append(row)
    for group in found.values():
        group.rows.sort(key=lambda row: (
            row.cell.toolchain != MAIN_TOOLCHAIN, row.cell.toolchain, row.cell.optimisation != "-O3",
            row.time.median if row.time else float("inf"),
        ))  # fmt: skip
    return list(found.values())
