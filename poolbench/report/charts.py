# SPDX-License-Identifier: BSL-1.0
"""Charts of one workload, as its description asks for them: Vega-Lite of estimates."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import polars as pl

from poolbench.analysis.estimate import matching
from poolbench.analysis.headlines import OURS
from poolbench.plan.cell import UNITS
from poolbench.plan.description import MAIN_TOOLCHAIN, TIME, Chart, Description, Where
from poolbench.report import theme
from poolbench.report.marks import (
    LINES_HEIGHT,
    ROW_HEIGHT,
    across,
    along,
    colours,
    figures,
    logarithmic,
    scale_of,
)

# 10k and 1M, but 16,384.
AXIS_NUMBER = "datum.value % 1000 ? format(datum.value, ',') : format(datum.value, '~s')"
CROSS = "M-0.7,-0.7L0.7,0.7M0.7,-0.7L-0.7,0.7"
USUAL: Where = {"toolchain": MAIN_TOOLCHAIN, "optimisation": "-O3"}


def panels(chart: Chart, description: Description, frame: pl.DataFrame) -> Iterator[tuple[str, alt.LayerChart, str]]:
    """(what the panel shows, chart, description in words), one a value of the columns in `rows`."""
    measured = list(chart.beside) or (list(_percentiles(chart)) if chart.kind == "percentiles" else chart.measure)
    where = {"workload": description.name, "measure": measured, **USUAL, **chart.where}
    for colour in (chart.colour, *([chart.x] if chart.x else [])):  # what is drawn must not be filtered
        if colour in USUAL and colour not in chart.where:
            where.pop(colour, None)
    found = matching(frame, where)
    split = [chart.rows] if isinstance(chart.rows, str) else list(chart.rows or [])
    parts = found.partition_by(split, maintain_order=True, as_dict=True) if split else {(): found}
    for values, part in parts.items():
        if len(part) == 0 or (chart.kind == "lines" and part[chart.x].n_unique() < 2):
            continue
        label = ", ".join(_value(name, value) for name, value in zip(split, values, strict=True))
        match chart.kind:
            case "lines":
                yield label, *_lines(chart, part)
            case "beside":
                yield label, *_beside(chart, part)
            case "percentiles":
                yield label, *_percentile_curves(chart, part)
            case _:
                yield label, *_dots(chart, description, part)


def _value(column: str, value: object) -> str:
    return f"{value:,} {UNITS[column]}" if column in UNITS and isinstance(value, int) else f"{column} {value}"


def _axis_title(chart: Chart, description: Description) -> str:
    return "ns per operation" if chart.measure == TIME else description.figures.get(chart.measure, chart.measure)


def _series(row: dict, colour: str) -> str:
    """Ours stands apart where colours mean mallocs: it has pages of its own."""
    ours = row["contender"].startswith(OURS)
    return theme.POOLED if colour == "malloc" and ours and row["malloc"] == "glibc" else str(row[colour])


def _published(description: Description, part: list[dict], colour: str) -> list[dict]:
    from poolbench.analysis.estimate import KEY
    from poolbench.analysis.rows import published
    from poolbench.plan.cell import Cell

    table = description.published
    return [
        {
            "contender": row["contender"],
            "series": _series(row, colour),
            "published": value * table.ns_per_unit,
            "shown": f"{value:g} {table.unit}",
        }
        for row in part
        for value in published(Cell(**{name: row[name] for name in KEY}), description)
        if table is not None and row["measure"] == TIME
    ]


def _dots(chart: Chart, description: Description, part: pl.DataFrame) -> tuple[alt.LayerChart, str]:
    """A row a contender, a mark a malloc (or toolchain ...), its interval, and what was published."""
    rows = part.sort("median").to_dicts()
    data = [{"contender": r["contender"], "series": _series(r, chart.colour), **figures(r)} for r in rows]
    published = _published(description, rows, chart.colour)
    order = list(dict.fromkeys(row["contender"] for row in data))
    scale = scale_of(data, *(row["published"] for row in published))
    colour, shape = colours(theme.in_order({row["series"] for row in data}))
    y = alt.Y("contender:N", sort=order, title=None)
    x = alt.X("median:Q", scale=scale, title=_axis_title(chart, description))
    base = alt.Chart(alt.Data(values=data)).encode(y=y, color=colour)
    layers = across(base, scale, x, shape=shape)
    if published:
        marks = alt.Chart(alt.Data(values=published)).mark_point(shape=CROSS, filled=False, size=60, strokeWidth=2)
        layers.append(marks.encode(y=y, x=alt.X("published:Q", scale=scale), color=colour))
    best, worst = data[0], data[-1]
    words = (
        f"{_axis_title(chart, description)} of {len(order)} contenders. "
        f"Least: {best['contender']} ({best['series']}) with {best['shown']}; "
        f"most: {worst['contender']} ({worst['series']}) with {worst['shown']}."
    )
    return alt.layer(*layers).properties(height={"step": ROW_HEIGHT}), words


def _lines(chart: Chart, part: pl.DataFrame) -> tuple[alt.LayerChart, str]:
    """Along an axis, a line a contender."""
    several = part["malloc"].n_unique() > 1
    rows = part.sort(chart.x).to_dicts()
    data = [
        {
            "contender": row["contender"],
            "series": f"{row['contender']} on {row['malloc']}" if several else row["contender"],
            "at": row[chart.x],
            **figures(row),
        }
        for row in rows
    ]
    colour, shape = colours(theme.in_order({row["series"] for row in data}))
    points = sorted({row["at"] for row in data})
    title = chart.x_title or chart.x
    scale = alt.Scale(type="log", base=2) if points[-1] / points[0] < 100 else alt.Scale(type="log")
    x = alt.X("at:Q", scale=scale, title=title, axis=alt.Axis(values=points, labelExpr=AXIS_NUMBER))
    y_scale = scale_of(data)
    y = alt.Y("median:Q", scale=y_scale, title="ns per operation")
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    layers = along(base, y_scale, y, shape=shape)
    first, last = points[0], points[-1]
    ends = {(row["series"], row["at"]): row["shown"] for row in data}
    words = f"ns per operation against {title}, from {first:,} to {last:,}. " + " ".join(
        f"{name}: from {ends[name, first]} to {ends[name, last]}."
        for name in dict.fromkeys(row["series"] for row in data)
        if (name, first) in ends and (name, last) in ends
    )
    return alt.layer(*layers).properties(height=LINES_HEIGHT), words


def _on_malloc(row: dict) -> str:
    """Ours takes its memory from the system, whatever the malloc."""
    ours = row["contender"].startswith(OURS) and row["malloc"] == "glibc"
    return row["contender"] if ours else f"{row['contender']} on {row['malloc']}"


def _beside(chart: Chart, part: pl.DataFrame) -> tuple[alt.LayerChart, str]:
    """A row a contender, a mark a figure: fresh beside aged."""
    rows = part.sort("median").to_dicts()
    data = [{"contender": _on_malloc(row), "series": chart.beside[row["measure"]], **figures(row)} for row in rows]
    last = list(chart.beside.values())[-1]
    order = list(dict.fromkeys(row["contender"] for row in data if row["series"] == last))
    scale = scale_of(data)
    colour, shape = colours(list(chart.beside.values()))
    y = alt.Y("contender:N", sort=order, title=None)
    base = alt.Chart(alt.Data(values=data)).encode(y=y, color=colour)
    x = alt.X("median:Q", scale=scale, title="ns per operation")
    layers = across(base, scale, x, shape=shape)
    shown = {(row["contender"], row["series"]): row["shown"] for row in data}
    words = "ns per operation. " + " ".join(
        f"{name}: " + ", ".join(f"{label} {shown.get((name, label), '–')}" for label in chart.beside.values()) + "."
        for name in order
    )
    return alt.layer(*layers).properties(height={"step": ROW_HEIGHT}), words


# How a figure of a percentile ends -> one operation in so many is slower.
PERCENTILES = {"p50": 2, "p99": 100, "p999": 1000, "p9999": 10_000}


def _percentiles(chart: Chart) -> dict[str, int]:
    """Figure -> one operation in so many is slower."""
    return {f"{chart.measure}_{name}_ns": each for name, each in PERCENTILES.items()}


def _percentile_curves(chart: Chart, part: pl.DataFrame) -> tuple[alt.LayerChart, str]:
    """Logarithmic both ways: the tail is as wide as the rest, and a microsecond can be drawn beside ten nanoseconds."""
    one_in = _percentiles(chart)
    data = [
        {"contender": row["contender"], "series": _on_malloc(row), "at": one_in[row["measure"]], **figures(row)}
        for row in part.to_dicts()
    ]
    data.sort(key=lambda row: (row["series"], row["at"]))
    colour, shape = colours(theme.in_order({row["series"] for row in data}))
    labels = "{'2': 'p50', '100': 'p99', '1000': 'p99.9', '10000': 'p99.99'}[datum.value]"
    axis = alt.Axis(values=list(PERCENTILES.values()), labelExpr=labels)
    x = alt.X("at:Q", scale=alt.Scale(type="log"), title="percentile", axis=axis)
    scale = logarithmic([row[end] for row in data for end in ("low", "high")])
    y = alt.Y("median:Q", scale=scale, title="ns, one operation")
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    layers = along(base, scale, y, shape=shape)
    shown = {(row["series"], row["at"]): row["shown"] for row in data}
    words = "ns of one operation at the percentiles 50, 99, 99.9 and 99.99. " + " ".join(
        f"{name}: " + ", ".join(shown.get((name, at), "–") for at in PERCENTILES.values()) + "."
        for name in dict.fromkeys(row["series"] for row in data)
    )
    return alt.layer(*layers).properties(height=LINES_HEIGHT), words
