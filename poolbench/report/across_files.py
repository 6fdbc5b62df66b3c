# SPDX-License-Identifier: BSL-1.0
"""Charts of several results files: machines beside each other, and one machine from commit to commit. What is drawn is
how many times as fast pooled is."""

from __future__ import annotations

import altair as alt

from poolbench.report import theme
from poolbench.report.marks import (
    LINES_HEIGHT,
    TICKS,
    TWO_LINES,
    across,
    along,
    colours,
    in_lines,
    logarithmic,
    where_equal,
)

LEAST, MOST = 1e-3, 1e3  # an interval without an end is drawn to here


def _bounded(data: list[dict]) -> list[dict]:
    return [{**row, "low": max(row["low"], LEAST), "high": min(row["high"], MOST)} for row in data]


def machines(data: list[dict], works: list[str], names: list[str]) -> alt.LayerChart:
    """A row a work, a mark a machine: how many times as fast, on a logarithmic scale whose middle is 1."""
    data = [{**row, "series": row["machine"]} for row in _bounded(data)]
    scale = logarithmic([1.0, *(row[end] for row in data for end in ("low", "high"))])
    colour, shape = colours(names)
    colour = colour.legend(alt.Legend(labelLimit=0, columns=1))
    shape = shape.legend(alt.Legend(labelLimit=0, columns=1))
    y = alt.Y("work:N", sort=works, title=None, axis=in_lines(works, minExtent=250))
    base = alt.Chart(alt.Data(values=data)).encode(y=y, color=colour)
    axis = alt.Axis(values=TICKS, format="~g")
    x = alt.X("ratio:Q", scale=scale, title="times as fast; right of 1 pooled is ahead", axis=axis)
    layers = [where_equal(x=alt.X("one:Q", scale=scale)), *across(base, scale, x, shape=shape)]
    return alt.layer(*layers).properties(height={"step": TWO_LINES})


def history(data: list[dict]) -> alt.LayerChart:
    """A point a results file, in the order of the data."""
    data = _bounded(data)
    # The date, and the commit below it; of many files some are not named.
    lines = "[slice(datum.value, 0, 16), slice(datum.value, 17)]"
    axis = alt.Axis(labelAngle=0, labelLimit=0, labelExpr=lines, labelOverlap="greedy")
    x = alt.X("at:N", sort=[row["at"] for row in data], title=None, axis=axis)
    scale = logarithmic([1.0, *(row[end] for row in data for end in ("low", "high"))])
    colour = alt.value(theme.COLOURS[theme.POOLED])
    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    y = alt.Y("ratio:Q", scale=scale, title="times as fast")
    layers = [where_equal(y=alt.Y("one:Q", scale=scale)), *along(base, scale, y)]
    return alt.layer(*layers).properties(height=LINES_HEIGHT // 2)
