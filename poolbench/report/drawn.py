# SPDX-License-Identifier: BSL-1.0
"""A chart as a page holds it: an SVG, drawn by Vega here, that needs no script."""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt
import vl_convert

from poolbench.report import theme

WIDTH = 720
# For an <img>, where no page gives it a colour.
ALONE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)


@dataclass(frozen=True)
class Drawn:
    name: str  # unique in the page
    title: str
    description: str  # for those who do not see it
    svg: str


def _specification(chart: alt.LayerChart) -> dict:
    # Altair checks each part when it is made; of the whole it would refuse a colour that is not in the schema's list,
    # which Vega hands on to the browser.
    spec = chart.to_dict(validate=False)
    return {**spec, "config": theme.CONFIG, "autosize": {"type": "fit-x", "contains": "padding"}}


def _svg(specification: dict) -> str:
    svg = vl_convert.vegalite_to_svg({**specification, "width": WIDTH})
    # Words inherit the font from the whole drawing: named at each word it is a twelfth of the drawing's bytes.
    font = f' font-family="{theme.CONFIG["font"]}"'
    return svg.replace(font, "").replace("<svg", "<svg" + font, 1)


def standalone_svg(chart: alt.LayerChart, description: str) -> str:
    """For a README: with a title, and colours of its own in either scheme."""
    svg = _svg(_specification(chart))
    head, body = svg.split(">", 1)
    return f'{head} role="img"><title>{_escaped(description)}</title>{ALONE}{body}\n'


def draw(name: str, title: str, description: str, chart: alt.LayerChart) -> Drawn:
    return Drawn(name, title, description, _svg(_specification(chart)))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
