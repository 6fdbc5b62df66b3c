# SPDX-License-Identifier: BSL-1.0
"""Colours and fonts of the charts. Text and lines take the colour of the text around them ("currentColor"), and the
marks' colours keep a contrast of 3:1 with white and with near-black, so one drawing serves light and dark pages."""

from __future__ import annotations

POOLED = "pooled"
COLOURS = {
    POOLED: "#e2550f",
    "glibc": "#808080",
    "tcmalloc": "#2f7ed8",
    "jemalloc": "#1a9850",
    "mimalloc": "#a05fd0",
    "mimalloc2": "#c2407f",
    "mimalloc3": "#7d6bd9",
    "snmalloc": "#0d8a8a",
    "rpmalloc": "#8a6d3b",
    "jemalloc-crate": "#5f8f1a",
    "limit": "#b08800",
    "make_shared": "#808080",
}
OTHER_COLOURS = ["#b5527f", "#2a8f8f", "#94762f", "#5b7083", "#d1495b", "#4f6bed", "#6b8e23"]
UNDECIDED = "#8b949e"
SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "stroke"]

CONFIG = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "gridColor": "currentColor",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridOpacity": 0.15,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 200,
    },
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "orient": "top",
        "columns": 3,
        "symbolOpacity": 1,
        "layout": {"top": {"anchor": "start", "bounds": "full"}},
        "title": None,
    },
}


def palette(names: list[str]) -> dict[str, list[str]]:
    """A colour and a shape for each name, the same in every chart for those that occur in many."""
    others = iter(OTHER_COLOURS * (len(names) // len(OTHER_COLOURS) + 1))
    shapes = SHAPES * (len(names) // len(SHAPES) + 1)
    known = [COLOURS.get(name) or COLOURS.get(name.removeprefix("make_shared on ")) for name in names]
    return {"colours": [colour or next(others) for colour in known], "shapes": shapes[: len(names)]}


def in_order(names: set[str]) -> list[str]:
    """Ours first, then the mallocs, then the rest by name."""
    known = [name for name in COLOURS if name in names]
    return known + sorted(names - set(known))
