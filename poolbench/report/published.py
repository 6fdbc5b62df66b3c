# SPDX-License-Identifier: BSL-1.0
"""The tables of the four published works, with a column measured here beside each of theirs. Machines differ, so each
time has its ratio to the table's base in brackets."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from poolbench.analysis.claims import USUAL
from poolbench.analysis.estimate import Rows, fastest, matching
from poolbench.analysis.rows import Figure
from poolbench.plan.description import TIME, Where
from poolbench.report import chart
from poolbench.tables import NONE, Sheet, number

FILE = Path(__file__).resolve().parent.parent / "published.toml"
PUBLISHED, HERE = "published", "here"
MISSING = "not measured"


@cache
def load(path: Path = FILE) -> list[dict]:
    return tomllib.loads(path.read_text(encoding="utf-8"))["tables"]


@dataclass(frozen=True)
class Value:
    shown: str
    relative: float | None  # to the base; of a gain, the percent themselves


def _found(estimated: Rows, table: dict, *where: Where) -> Rows:
    wanted = {**USUAL, "workload": table["workload"], **table.get("where", {})}
    for each in where:
        wanted |= each
    wanted.setdefault("measure", TIME)
    # A cell at another scale than the workload's largest is another experiment.
    rows = [row for row in matching(estimated, wanted) if not row["cell"].cut_short]
    largest = max((row["scale"] for row in rows), default=0)
    return [row for row in rows if row["scale"] == largest]


def _gain(estimated: Rows, table: dict, row: dict, column: dict) -> float | None:
    """Percent, at the step where it is largest."""
    sides = row.get("gain_of", table["gain_of"]), table["gain_over"]
    ours, theirs = (_found(estimated, table, column["where"], row["where"], side) for side in sides)
    times = {row["step"]: row["median"] for row in theirs}
    gains = [100 * (1 - row["median"] / times[row["step"]]) for row in ours if row["step"] in times]
    return max(gains, default=None)


def _measured(estimated: Rows, table: dict, row: dict, column: dict) -> float | None:
    if "gain_of" in table:
        return _gain(estimated, table, row, column)
    found = fastest(_found(estimated, table, column["where"], row["where"]))
    return found["median"] * table.get("factor", 1.0) if found else None


def _values(table: dict, at: dict[tuple[str, str], float | None]) -> dict[tuple[str, str], Value]:
    """`at`: row and column -> figure."""
    found = {}
    for (row, column), figure in at.items():
        base = table.get("base")
        below = at.get((row, base)) or at.get((base, column))
        relative = figure if base is None else figure / below if figure is not None and below else None
        if figure is None:
            found[row, column] = Value(NONE, None)
        elif table["unit"] == "×":
            found[row, column] = Value(number(relative), relative)
        else:
            found[row, column] = Value(
                number(figure) + (f" ({number(relative)}×)" if base and relative is not None else ""), relative
            )
    return found


def _against_step(table: dict, estimated: Rows) -> chart.Chart | None:
    """As the article draws it: a plot a pattern and malloc, in it the time of each contender at each step."""
    lines: list[chart.Line] = []
    for row in table["rows"]:
        for column in table["columns"] if "gain_of" not in row else []:
            found = {
                each["name"]: {
                    it["step"]: Figure(it["median"], it["low"], it["high"])
                    for it in _found(estimated, table, column["where"], row["where"], each["where"])
                }
                for each in table["drawn"]
            }
            steps = sorted(set().union(*found.values()))
            lines += [chart.Line(f"{row['name']}, {column['name']}")] if steps else []
            for step in steps:
                marks = [chart.Mark(name, at[step]) for name, at in found.items() if step in at]
                lines.append(chart.Line(f"step {step:,}", marks))
    if not lines:
        return None
    title = f"{table['title'].split(':')[0]}: ns per item against the enlarge step"
    return chart.draw(title, f"{title}, a group of rows for each pattern and malloc.", "ns per item", lines)


def _label(table: dict, row: dict, estimated: Rows) -> str:
    """The row's name, and the toolchain or malloc of which the file has nothing."""
    wanted = {**USUAL, **table.get("where", {}), **row["where"]}
    lacks = [wanted[axis] for axis in ("toolchain", "malloc") if all(it[axis] != wanted[axis] for it in estimated)]
    return ": no ".join([row["name"], *lacks])


@dataclass(frozen=True)
class Comparison:
    sheet: Sheet
    pictures: list[chart.Chart]
    is_measured: bool


def comparison(table: dict, estimated: Rows) -> Comparison:
    rows, columns = table["rows"], table["columns"]
    published = {
        (row["name"], column["name"]): float(figure) if figure != "-" else None
        for row in rows
        for column, figure in zip(columns, row["published"], strict=True)
    }
    here = {
        (row["name"], column["name"]): _measured(estimated, table, row, column)
        for row in rows
        for column in columns
        if "where" in column
    }
    theirs, ours = _values(table, published), _values(table, here)
    # A column without a published figure is shown as measured here alone.
    told = {name for _, name in [at for at, figure in published.items() if figure is not None]}
    headings, lines = [""], [[_label(table, row, estimated)] for row in rows]
    for column in columns:
        name = column["name"]
        if name in told:
            headings.append(f"{name}, {PUBLISHED}")
            for row, line in zip(rows, lines, strict=True):
                line.append(theirs[row["name"], name].shown)
        if "where" in column:
            headings.append(f"{name}, {HERE}" if sum("where" in each for each in columns) > 1 else HERE)
            for row, line in zip(rows, lines, strict=True):
                value = ours[row["name"], name]
                line.append(value.shown if value.shown != NONE else MISSING)
    marks = []
    for row in rows:
        for column in columns:
            key = row["name"], column["name"]
            points = [
                chart.Mark(series, Figure(of[key].relative, of[key].relative, of[key].relative))
                for series, of in ((PUBLISHED, theirs), (HERE, ours))
                if key in of and of[key].relative is not None
            ]
            if points and key in ours and column["name"] != table.get("base"):
                title = row["name"] if len(here) == len(rows) else f"{row['name']}: {column['name']}"
                marks.append(chart.Line(title, points))
    axis = "gain over malloc, percent" if "gain_of" in table else f"{table['base']} = 1"
    words = f"{table['title']}: as published, and as measured here."
    sheet = Sheet(table["title"], headings, lines, f"Published: {table['caption']}.", {""})
    pictures = [chart.draw(table["title"], words, axis, marks)] if marks else []
    if "drawn" in table and (against := _against_step(table, estimated)):
        pictures.append(against)
    return Comparison(
        sheet,
        pictures,
        any(figure is not None for figure in here.values()),
    )


def comparisons(estimated: Rows, works: set[str] | None = None) -> list[Comparison]:
    """Those of which something was measured; `works`: of these workloads alone."""
    wanted = [table for table in load() if works is None or table["workload"] in works]
    return [found for table in wanted if (found := comparison(table, estimated)).is_measured]
