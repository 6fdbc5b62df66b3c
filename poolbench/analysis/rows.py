# SPDX-License-Identifier: BSL-1.0
"""One row a cell: what tables and the report show of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from poolbench.analysis import stats
from poolbench.analysis.estimate import KEY, collect, estimates
from poolbench.plan.cell import Cell
from poolbench.plan.description import TIME, Description, default, order
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


def _figures(frame: pl.DataFrame) -> dict[Cell, dict[str, tuple[Figure, int]]]:
    found: dict[Cell, dict[str, tuple[Figure, int]]] = {}
    for row in frame.iter_rows(named=True):
        cell = Cell(**{name: row[name] for name in KEY})
        figure = Figure(row["median"], row["low"], row["high"])
        found.setdefault(cell, {})[row["measure"]] = (figure, row["n"])
    return found


def rows(results: Results, descriptions: dict[str, Description], frame: pl.DataFrame | None = None) -> list[Row]:
    figures = _figures(estimates(results) if frame is None else frame)
    failures = results.failed_cells()
    by_peer = {_peer(cell): cell for cell in figures}
    samples = {cell: values for (cell, measure), values in collect(results).items() if measure == TIME}
    bases = {}
    for cell in figures:
        description = descriptions.get(cell.workload) or default(cell.workload)
        below = by_peer.get(_peer(cell, description.base_of(cell.variant)))
        if below is not None and below in samples and cell in samples:
            bases[cell] = below
    bounds = stats.all_intervals(
        stats.ratio_of_medians, [samples[cell] for cell in bases], [samples[below] for below in bases.values()]
    )
    ratios = {
        cell: Figure(stats.median(samples[cell]) / stats.median(samples[below]), low, high)
        for (cell, below), (low, high) in zip(bases.items(), bounds, strict=True)
    }
    made = []
    for cell in [*figures, *(cell for cell in failures if cell not in figures)]:
        found = figures.get(cell, {})
        time, runs = found.get(TIME, (None, 0))
        description = descriptions.get(cell.workload) or default(cell.workload)
        base = description.base_of(cell.variant)
        why = failures[cell].get("reason", "failed") if cell in failures else ""
        beside = {name: figure for name, (figure, _) in found.items() if name != TIME}
        made.append(Row(cell, runs, time, beside, base, ratios.get(cell), str(why)))
    return made


def _peer(cell: Cell, contender: str | None = None) -> tuple:
    return (*(getattr(cell, n) for n in KEY if n not in ("contender", "scale")), contender or cell.contender)


def groups(results: Results, descriptions: dict[str, Description], frame: pl.DataFrame | None = None) -> list[Group]:
    """In the order of the workloads, then of the plan; within a group fastest first."""
    operations = {(cell.workload, cell.variant): sample.get("operation", "") for cell, sample in results.samples}
    found: dict[tuple, Group] = {}
    for row in sorted(rows(results, descriptions, frame), key=lambda row: order(row.cell.workload)):
        cell = row.cell
        if row.group() not in found:
            description = descriptions.get(cell.workload) or default(cell.workload)
            operation = operations.get((cell.workload, cell.variant), "")
            found[row.group()] = Group(description, cell.variant, cell.parameters(), operation)
        found[row.group()].rows.append(row)
    for group in found.values():
        group.rows.sort(key=_fastest_first)
    return list(found.values())


def _fastest_first(row: Row) -> tuple:
    return (row.cell.toolchain != "gcc", row.cell.toolchain, row.cell.optimisation != "-O3",
            row.time.median if row.time else float("inf"))  # fmt: skip
