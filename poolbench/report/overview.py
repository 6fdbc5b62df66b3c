# SPDX-License-Identifier: BSL-1.0
"""Charts of a whole results file: the picture that a report begins with."""

from __future__ import annotations

import json

import altair as alt

from poolbench.analysis.headlines import OURS, by_use
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.plan.description import STANDARD
from poolbench.report import theme
from poolbench.report.marks import INK, TICKS, colours, figures, in_lines, where_equal
from poolbench.tables import number

STEP = 28  # the height of a row of the picture: two lines of a name
LEAD = 18  # of the picture's scale, left of the leftmost mark: what its label takes


def picture(rows: list[HeadlineRow]) -> alt.LayerChart:
    """The first screen: how long each work takes, the best malloc being 1. Works of one use stand together under its
    name; a lead that is undecided is grey."""
    kept = [row for row in rows if row.over_best]
    uses = by_use(kept)
    order = [name for use, members in uses.items() for name in (*([use] if use else []), *_works(members))]
    ends = [value for row in kept for value in _ends(row)]
    scale = alt.Scale(type="log", nice=False, domain=[min(ends) / LEAD, max(ends) * 1.1])
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
    axis = in_lines(order, minExtent=250, labelLineHeight=13, labelFontWeight=bold, ticks=False, domain=False)
    y = alt.Y("work:N", scale=alt.Scale(domain=order), sort=None, title=None, axis=axis)
    title = "time per object; best malloc = 1; grey: undecided"
    x = alt.X("relative:Q", scale=scale, title=title, axis=alt.Axis(values=TICKS, format="~g"))
    colour, shape = colours(theme.in_order({mark["series"] for mark in marks}))
    undecided = "datum.verdict == 'undecided'"
    sure = alt.condition(undecided, alt.value(theme.UNDECIDED), alt.value(theme.COLOURS[theme.POOLED]))
    points = alt.Chart(alt.Data(values=marks)).encode(y=y, color=colour)
    lead = alt.Chart(alt.Data(values=leads)).encode(y=y)
    line = lead.transform_calculate(one="1")
    return alt.layer(
        line.mark_rule(strokeWidth=5, opacity=0.35).encode(x=alt.X("at:Q", scale=scale), x2="one:Q", color=sure),
        where_equal(x=alt.X("one:Q", scale=scale)),
        points.mark_rule(strokeWidth=2, opacity=0.8).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        points.mark_point(filled=True, size=70, opacity=1).encode(x=x, shape=shape),
        lead.mark_text(align="right", dx=-9, fontSize=12, fontWeight="bold").encode(
            fill=alt.condition(undecided, alt.value(theme.UNDECIDED), INK),
            x=alt.X("left:Q", scale=scale),
            text="lead:N",
        ),
    ).properties(height={"step": STEP})


def _works(rows: list[HeadlineRow]) -> list[str]:
    return [row.headline.work for row in rows]


def _unit(row: HeadlineRow) -> float:
    return row.mallocs[row.best]["median"]


def _ends(row: HeadlineRow) -> list[float]:
    ours = figures(row.ours[OURS])
    others = [figures(each) for each in (*row.mallocs.values(), *([row.limit] if row.limit else []))]
    return [each[end] / _unit(row) for each in (ours, *others) for end in ("low", "high")]


def _marks(row: HeadlineRow) -> list[dict]:
    work, unit = row.headline.work, _unit(row)
    marks = [_mark(work, name, f"{STANDARD} on {name}", found, unit) for name, found in row.mallocs.items()]
    marks.append(_mark(work, theme.POOLED, "pooled", row.ours[OURS], unit))
    if row.limit:
        marks.append(_mark(work, "limit", row.headline.limit_is, row.limit, unit))
    return marks


def _mark(work: str, series: str, contender: str, found: dict, unit: float) -> dict:
    shown = figures(found)
    relative = {name: shown[name] / unit for name in ("low", "high")}
    return {"work": work, "series": series, "contender": contender, **shown, **relative,
            "relative": shown["median"] / unit}  # fmt: skip


def picture_in_words(rows: list[HeadlineRow]) -> str:
    parts = [
        f"{r.headline.work}: pooled takes {number(1 / r.over_best.ratio)} of the best malloc ({r.best}), "
        f"{r.over_best.verdict}"
        for r in rows
        if r.over_best
    ]
    return "Time per object of each work, the best malloc being 1. " + "; ".join(parts) + "."
