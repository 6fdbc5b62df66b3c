# SPDX-License-Identifier: BSL-1.0
"""Vega-Lite charts of estimates."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator

import altair as alt
import polars as pl

from poolbench.analysis.estimate import matching
from poolbench.analysis.headlines import OURS, by_use
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.plan.cell import PARAMETERS, UNITS
from poolbench.plan.description import MAIN_TOOLCHAIN, STANDARD, TIME, Chart, Description, Where
from poolbench.report import theme
from poolbench.tables import number, range_text

ROW_HEIGHT = 22
TWO_LINES = 32  # the height of a row whose name may take two lines
LABEL_CHARACTERS = 38
CROSS = "M-0.7,-0.7L0.7,0.7M0.7,-0.7L-0.7,0.7"
LINES_HEIGHT = 260
LEAD_ROOM = 18  # of the picture's scale, left of the leftmost mark: what its label takes
TICKS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]
ROOM = 1.12  # of a logarithmic scale, at each end
WIDE = 4  # the largest over the smallest value from which on a scale is logarithmic
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


def of_scan(workload: str, axes: list[str], frame: pl.DataFrame) -> list[Chart]:
    """The curves of a workload along each axis that a run scanned."""
    found = []
    here = matching(frame, {"workload": workload, "measure": TIME})
    for axis in axes:
        if here[axis].n_unique() < 2:
            continue
        rows = [name for name in ("variant", *PARAMETERS) if name != axis and here[name].n_unique() > 1]
        title = "live objects" if axis == "live" else axis
        found.append(Chart("lines", f"Time against {title}", rows=rows, x=axis, x_title=title))
    return found


def _value(column: str, value: object) -> str:
    return f"{value:,} {UNITS[column]}" if column in UNITS and isinstance(value, int) else f"{column} {value}"


def _axis_title(chart: Chart, description: Description) -> str:
    return "ns per operation" if chart.measure == TIME else description.figures.get(chart.measure, chart.measure)


def _shown(row: dict) -> dict:
    """The interval of a single run is everything, and is not drawn."""
    finite = math.isfinite(row["high"])
    return {
        "median": row["median"],
        "low": row["low"] if finite else row["median"],
        "high": row["high"] if finite else row["median"],
        "interval": range_text(row["low"], row["high"]),
        "runs": row["n"],
        "shown": number(row["median"]),
    }


def _scale(rows: list[dict], *more: float) -> alt.Scale:
    """Of all that is drawn, with a little room at both ends."""
    low = min([row["low"] for row in rows] + list(more))
    high = max([row["high"] for row in rows] + list(more))
    if low > 0 and high > WIDE * low:
        return alt.Scale(type="log", domain=[low / ROOM, high * ROOM], nice=False)
    return alt.Scale(zero=True)


def _series(row: dict, colour: str) -> str:
    """Ours stands apart where colours mean mallocs: it has pages of its own."""
    ours = row["contender"].startswith(OURS)
    return theme.POOLED if colour == "malloc" and ours and row["malloc"] == "glibc" else str(row[colour])


def _colour(names: list[str]) -> tuple[alt.Color, alt.Shape]:
    chosen = theme.palette(names)
    colour = alt.Color("series:N", scale=alt.Scale(domain=names, range=chosen["colours"]), title=None)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=names, range=chosen["shapes"]), title=None)
    return colour, shape


INK = alt.value("currentColor")
TOOLTIP = [
    alt.Tooltip("contender:N"),
    alt.Tooltip("series:N"),
    alt.Tooltip("shown:N", title="median"),
    alt.Tooltip("interval:N", title="95% interval"),
    alt.Tooltip("runs:Q"),
]


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
    data = [{"contender": r["contender"], "series": _series(r, chart.colour), **_shown(r)} for r in rows]
    published = _published(description, rows, chart.colour)
    order = list(dict.fromkeys(row["contender"] for row in data))
    scale = _scale(data, *(row["published"] for row in published))
    colour, shape = _colour(theme.in_order({row["series"] for row in data}))
    y = alt.Y("contender:N", sort=order, title=None)
    x = alt.X("median:Q", scale=scale, title=_axis_title(chart, description))
    base = alt.Chart(alt.Data(values=data)).encode(y=y, color=colour)
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=x, shape=shape, tooltip=TOOLTIP),
    ]
    if published:
        marks = alt.Chart(alt.Data(values=published)).mark_point(shape=CROSS, filled=False, size=60, strokeWidth=2)
        tooltip = [alt.Tooltip("contender:N"), alt.Tooltip("series:N"), alt.Tooltip("shown:N", title="published")]
        layers.append(marks.encode(y=y, x=alt.X("published:Q", scale=scale), color=colour, tooltip=tooltip))
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
            **_shown(row),
        }
        for row in rows
    ]
    colour, shape = _colour(theme.in_order({row["series"] for row in data}))
    points = sorted({row["at"] for row in data})
    title = chart.x_title or chart.x
    scale = alt.Scale(type="log", base=2) if points[-1] / points[0] < 100 else alt.Scale(type="log")
    x = alt.X("at:Q", scale=scale, title=title, axis=alt.Axis(values=points, format="~s"))
    y_scale = _scale(data)
    y = alt.Y("median:Q", scale=y_scale, title="ns per operation")
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    tooltip = [*TOOLTIP[:2], alt.Tooltip("at:Q", title=title, format=","), *TOOLTIP[2:]]
    layers = [
        base.mark_line(strokeWidth=2).encode(y=y),
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(y=alt.Y("low:Q", scale=y_scale), y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=shape, tooltip=tooltip),
    ]
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
    data = [{"contender": _on_malloc(row), "series": chart.beside[row["measure"]], **_shown(row)} for row in rows]
    last = list(chart.beside.values())[-1]
    order = list(dict.fromkeys(row["contender"] for row in data if row["series"] == last))
    scale = _scale(data)
    colour, shape = _colour(list(chart.beside.values()))
    y = alt.Y("contender:N", sort=order, title=None)
    base = alt.Chart(alt.Data(values=data)).encode(y=y, color=colour)
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=alt.X("median:Q", scale=scale, title="ns per operation"), shape=shape, tooltip=TOOLTIP
        ),
    ]
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
        {"contender": row["contender"], "series": _on_malloc(row), "at": one_in[row["measure"]], **_shown(row)}
        for row in part.to_dicts()
    ]
    data.sort(key=lambda row: (row["series"], row["at"]))
    colour, shape = _colour(theme.in_order({row["series"] for row in data}))
    labels = "{'2': 'p50', '100': 'p99', '1000': 'p99.9', '10000': 'p99.99'}[datum.value]"
    axis = alt.Axis(values=list(PERCENTILES.values()), labelExpr=labels)
    x = alt.X("at:Q", scale=alt.Scale(type="log"), title="percentile", axis=axis)
    ends = [min(row["low"] for row in data) / ROOM, max(row["high"] for row in data) * ROOM]
    scale = alt.Scale(type="log", nice=False, domain=ends)
    y = alt.Y("median:Q", scale=scale, title="ns, one operation")
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    layers = [
        base.mark_line(strokeWidth=2).encode(y=y),
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, shape=shape, tooltip=TOOLTIP),
    ]
    shown = {(row["series"], row["at"]): row["shown"] for row in data}
    words = "ns of one operation at the percentiles 50, 99, 99.9 and 99.99. " + " ".join(
        f"{name}: " + ", ".join(shown.get((name, at), "–") for at in PERCENTILES.values()) + "."
        for name in dict.fromkeys(row["series"] for row in data)
    )
    return alt.layer(*layers).properties(height=LINES_HEIGHT), words


def picture(rows: list[HeadlineRow]) -> alt.LayerChart:
    """The first screen: how long each work takes, the best malloc being 1. Works of one use stand together under its
    name; a lead that is undecided is grey."""
    kept = [row for row in rows if row.over_best]
    uses = by_use(kept)
    order = [name for use, members in uses.items() for name in (*([use] if use else []), *_works(members))]
    ends = [value for row in kept for value in _ends(row)]
    scale = alt.Scale(type="log", nice=False, domain=[min(ends) / LEAD_ROOM, max(ends) * 1.1])
    marks = [mark for row in kept for mark in _marks(row)]
    leads = [
        {
            "work": row.headline.work,
            "at": row.ours[OURS]["median"] / _unit(row),
            "left": min(_ends(row)),
            "lead": f"{number(row.over_best.ratio)}× {row.best}" + "?" * (row.over_best.verdict == "undecided"),
            "verdict": str(row.over_best.verdict),
        }
        for row in kept
    ]
    bold = alt.condition(f"indexof({json.dumps(list(uses))}, datum.value) >= 0", alt.value("bold"), alt.value("normal"))
    axis = alt.Axis(labelLimit=260, minExtent=225, labelFontWeight=bold, ticks=False, domain=False)
    y = alt.Y("work:N", scale=alt.Scale(domain=order), sort=None, title=None, axis=axis)
    title = "time per object; best malloc = 1; grey: undecided"
    x = alt.X("relative:Q", scale=scale, title=title, axis=alt.Axis(values=TICKS, format="~g"))
    colour, shape = _colour(theme.in_order({mark["series"] for mark in marks}))
    undecided = "datum.verdict == 'undecided'"
    sure = alt.condition(undecided, alt.value(theme.UNDECIDED), alt.value(theme.COLOURS[theme.POOLED]))
    points = alt.Chart(alt.Data(values=marks)).encode(y=y, color=colour)
    lead = alt.Chart(alt.Data(values=leads)).encode(y=y)
    line = lead.transform_calculate(one="1")
    return alt.layer(
        line.mark_rule(strokeWidth=5, opacity=0.35).encode(x=alt.X("at:Q", scale=scale), x2="one:Q", color=sure),
        alt.Chart(alt.Data(values=[{"one": 1}]))
        .mark_rule(strokeDash=[4, 3], opacity=0.6)
        .encode(x=alt.X("one:Q", scale=scale), stroke=INK),
        points.mark_rule(strokeWidth=2, opacity=0.8).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        points.mark_point(filled=True, size=70, opacity=1).encode(x=x, shape=shape, tooltip=TOOLTIP),
        lead.mark_text(align="right", dx=-9, fontSize=12, fontWeight="bold").encode(
            fill=alt.condition(undecided, alt.value(theme.UNDECIDED), INK),
            x=alt.X("left:Q", scale=scale),
            text="lead:N",
        ),
    ).properties(height={"step": 25})


def _works(rows: list[HeadlineRow]) -> list[str]:
    return [row.headline.work for row in rows]


def _unit(row: HeadlineRow) -> float:
    return row.mallocs[row.best]["median"]


def _ends(row: HeadlineRow) -> list[float]:
    ours = _shown(row.ours[OURS])
    others = [_shown(each) for each in (*row.mallocs.values(), *([row.limit] if row.limit else []))]
    return [each[end] / _unit(row) for each in (ours, *others) for end in ("low", "high")]


def _marks(row: HeadlineRow) -> list[dict]:
    work, unit = row.headline.work, _unit(row)
    marks = [_mark(work, name, f"{STANDARD} on {name}", found, unit) for name, found in row.mallocs.items()]
    marks.append(_mark(work, theme.POOLED, "pooled", row.ours[OURS], unit))
    if row.limit:
        marks.append(_mark(work, "limit", row.headline.limit_is, row.limit, unit))
    return marks


def _mark(work: str, series: str, contender: str, found: dict, unit: float) -> dict:
    shown = _shown(found)
    relative = {name: shown[name] / unit for name in ("low", "high")}
    return {"work": work, "series": series, "contender": contender, **shown, **relative,
            "relative": shown["median"] / unit}  # fmt: skip


def machines(data: list[dict], works: list[str], names: list[str]) -> alt.LayerChart:
    """A row a work, a mark a machine: how many times as fast, on a logarithmic scale whose middle is 1."""
    data = [
        {**row, "low": max(row["low"], 1e-3), "high": min(row["high"], 1e3), "series": row["machine"]} for row in data
    ]
    ends = [min(1, *(row["low"] for row in data)) / ROOM, max(1, *(row["high"] for row in data)) * ROOM]
    scale = alt.Scale(type="log", nice=False, domain=ends)
    colour, shape = _colour(names)
    colour = colour.legend(alt.Legend(labelLimit=0, columns=1))
    shape = shape.legend(alt.Legend(labelLimit=0, columns=1))
    y = alt.Y("work:N", sort=works, title=None, axis=_in_lines(works))
    base = alt.Chart(alt.Data(values=data)).encode(y=y, color=colour)
    axis = alt.Axis(values=TICKS, format="~g")
    return alt.layer(
        alt.Chart(alt.Data(values=[{"one": 1}]))
        .mark_rule(strokeDash=[4, 3], opacity=0.6)
        .encode(x=alt.X("one:Q", scale=scale), stroke=INK),
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=alt.X("ratio:Q", scale=scale, title="times as fast; right of 1 pooled is ahead", axis=axis), shape=shape
        ),
    ).properties(height={"step": TWO_LINES})


def _in_lines(names: list[str]) -> alt.Axis:
    """Long names are broken into lines, not cut off: two often differ at their ends alone."""
    lines = json.dumps({name: textwrap.wrap(name, LABEL_CHARACTERS) for name in names})
    return alt.Axis(labelExpr=f"{lines}[datum.value]", labelLimit=0, minExtent=250)


def history(data: list[dict]) -> alt.LayerChart:
    """A point a results file, in the order of the data."""
    data = [{**row, "low": max(row["low"], 1e-3), "high": min(row["high"], 1e3)} for row in data]
    # The date, and the commit below it; of many files some are not named.
    lines = "[slice(datum.value, 0, 16), slice(datum.value, 17)]"
    axis = alt.Axis(labelAngle=0, labelLimit=0, labelExpr=lines, labelOverlap="greedy")
    x = alt.X("at:N", sort=[row["at"] for row in data], title=None, axis=axis)
    low, high = min(1, *(row["low"] for row in data)), max(1, *(row["high"] for row in data))
    scale = alt.Scale(type="log", nice=False, domain=[low / ROOM, high * ROOM])
    colour = alt.value(theme.COLOURS[theme.POOLED])
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    y = alt.Y("ratio:Q", scale=scale, title="times as fast")
    return alt.layer(
        alt.Chart(alt.Data(values=[{"one": 1}]))
        .mark_rule(strokeDash=[4, 3], opacity=0.6)
        .encode(y=alt.Y("one:Q", scale=scale), stroke=INK),
        base.mark_line(strokeWidth=2).encode(y=y),
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y),
    ).properties(height=LINES_HEIGHT // 2)


def picture_in_words(rows: list[HeadlineRow]) -> str:
    parts = [
        f"{r.headline.work}: pooled takes {number(1 / r.over_best.ratio)} of the best malloc ({r.best}), "
        f"{r.over_best.verdict}"
        for r in rows
        if r.over_best
    ]
    return "Time per object of each work, the best malloc being 1. " + "; ".join(parts) + "."


def heat_map(headlines: list[HeadlineRow], frame: pl.DataFrame) -> tuple[alt.LayerChart, list[dict]] | None:
    """Contenders against works: time over that of std::make_shared on glibc. The cells too, for the table."""
    data = []
    for row in headlines:
        if "glibc" not in row.mallocs:
            continue
        unit = row.mallocs["glibc"]["median"]
        where = {"workload": row.workload, "measure": row.headline.measure, **USUAL, **row.headline.where}
        for found in matching(frame, where).iter_rows(named=True):
            if found["malloc"] != "glibc" and found["contender"] != STANDARD:
                continue
            name = found["contender"] + ("" if found["malloc"] == "glibc" else f" on {found['malloc']}")
            relative = found["median"] / unit
            data.append({"contender": name, "work": row.headline.short or row.headline.work, "relative": relative,
                         "text": number(relative), "log": math.log2(relative)})  # fmt: skip
    if not data:
        return None
    logs: dict[str, list[float]] = {}
    for cell in data:
        logs.setdefault(cell["contender"], []).append(cell["log"])
    half = len({cell["work"] for cell in data}) / 2
    # A mean over few works says little: those come last.
    order = sorted(logs, key=lambda name: (len(logs[name]) < half, sum(logs[name]) / len(logs[name])))
    works = list(dict.fromkeys(cell["work"] for cell in data))
    data.sort(key=lambda cell: (order.index(cell["contender"]), works.index(cell["work"])))
    base = alt.Chart(alt.Data(values=data)).encode(
        x=alt.X("work:N", sort=works, title=None, axis=alt.Axis(orient="top", labelAngle=-30, labelLimit=200)),
        y=alt.Y("contender:N", sort=order, title=None),
    )
    colour = alt.Color("log:Q", scale=alt.Scale(domain=[-4, 0, 4], range=theme.HEAT, clamp=True), legend=None)
    tooltip = [alt.Tooltip("contender:N"), alt.Tooltip("work:N"), alt.Tooltip("text:N", title="÷ make_shared")]
    layers = alt.layer(
        base.mark_rect().encode(color=colour, tooltip=tooltip),
        base.mark_text(color="black", fontSize=11).encode(text="text:N"),
    )
    return layers.properties(height={"step": ROW_HEIGHT}), data
