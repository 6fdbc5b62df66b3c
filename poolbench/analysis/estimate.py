# SPDX-License-Identifier: BSL-1.0
"""A figure with an interval of each cell, as a Polars frame: one row a cell and measure.

The figure is the median of the processes or, of a measure whose name ends in "_worst", the largest. That has no
interval: another process might be worse, and more processes find worse ones."""

from dataclasses import fields

import numpy as np
import polars as pl

from poolbench.analysis import stats
from poolbench.plan.cell import Cell
from poolbench.plan.description import ALL, TIME, Where
from poolbench.results.read import Results, is_figure

KEY = [field.name for field in fields(Cell)]
NUMBERS = {"payload": pl.Int64, "threads": pl.Int64, "live": pl.Int64, "step": pl.Int64, "scale": pl.Float64}
SCHEMA = {name: NUMBERS.get(name, pl.String) for name in KEY} | {
    "measure": pl.String,
    "values": pl.List(pl.Float64),
    "n": pl.Int64,
    "median": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def collect(results: Results) -> dict[tuple[Cell, str], list[float]]:
    """The samples of each cell and measure, in the order in which they were taken."""
    found: dict[tuple[Cell, str], list[float]] = {}
    for cell, sample in results.samples:
        found.setdefault((cell, TIME), []).append(float(sample["ns_per_op"]))
        for name, value in sample.get("figures", {}).items():
            if is_figure(value):
                found.setdefault((cell, name), []).append(float(value))
    return found


WORST = "_worst"


def estimates(results: Results) -> pl.DataFrame:
    found = collect(results)
    values = [[max(samples)] if measure.endswith(WORST) else samples for (_, measure), samples in found.items()]
    runs = map(len, found.values())
    rows = [
        {**{name: getattr(cell, name) for name in KEY}, "measure": measure, "values": samples, "n": n,
         "median": stats.median(samples), "low": low, "high": high}
        for (cell, measure), samples, n, (low, high) in zip(
            found, values, runs, stats.all_intervals(np.median, values) if values else [], strict=True)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)


def matching(frame: pl.DataFrame, where: Where) -> pl.DataFrame:
    """The rows whose columns have these values; a list means any of them, "all" means whatever."""
    for column, wanted in where.items():
        if wanted == ALL:
            continue
        keep = pl.col(column).is_in(wanted) if isinstance(wanted, list) else pl.col(column) == wanted
        frame = frame.filter(keep)
    return frame


def fastest(frame: pl.DataFrame) -> dict | None:
    """The row with the smallest median."""
    return frame.sort("median").row(0, named=True) if len(frame) else None
