# SPDX-License-Identifier: BSL-1.0
"""What every chart is drawn with: medians as points, their intervals as lines, scales, colours and names."""

from __future__ import annotations

import json
import math
import textwrap

import altair as alt

from poolbench.report import theme
from poolbench.tables import number, range_text

ROW_HEIGHT = 22
LABEL_CHARACTERS = 38
LINES_HEIGHT = 260
MARGIN = 1.12  # of a logarithmic scale, at each end
WIDE = 4  # the largest over the smallest value from which on a scale is logarithmic
TICKS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]
INK = alt.value("currentColor")


def figures(row: dict) -> dict:
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


def scale_of(rows: list[dict], *more: float) -> alt.Scale:
    """Of all that is drawn, with a margin at both ends."""
    low = min([row["low"] for row in rows] + list(more))
    high = max([row["high"] for row in rows] + list(more))
    if low > 0 and high > WIDE * low:
        return alt.Scale(type="log", domain=[low / MARGIN, high * MARGIN], nice=False)
    return alt.Scale(zero=True)


def logarithmic(values: list[float]) -> alt.Scale:
    return alt.Scale(type="log", nice=False, domain=[min(values) / MARGIN, max(values) * MARGIN])


def colours(names: list[str]) -> tuple[alt.Color, alt.Shape]:
    chosen = theme.palette(names)
    colour = alt.Color("series:N", scale=alt.Scale(domain=names, range=chosen["colours"]), title=None)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=names, range=chosen["shapes"]), title=None)
    return colour, shape


def across(base: alt.Chart, scale: alt.Scale, x: alt.X, **points) -> list[alt.Chart]:
    """In a row each: the interval and the median."""
    return [
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=x, **points),
    ]


def along(base: alt.Chart, scale: alt.Scale, y: alt.Y, **points) -> list[alt.Chart]:
    """A line from median to median, with their intervals."""
    return [
        base.mark_line(strokeWidth=2).encode(y=y),
        base.mark_rule(strokeWidth=2, opacity=0.6).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, **points),
    ]


def where_equal(**place) -> alt.Chart:
    """A dashed line at the ratio 1."""
    line = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 3], opacity=0.6)
    return line.encode(stroke=INK, **place)


def in_lines(names: list[str], **axis) -> alt.Axis:
    """Long names are broken into lines, not cut off: two often differ at their ends alone."""
    lines = json.dumps({name: textwrap.wrap(name, LABEL_CHARACTERS) for name in names})
    return alt.Axis(labelExpr=f"{lines}[datum.value]", labelLimit=0, **axis)
