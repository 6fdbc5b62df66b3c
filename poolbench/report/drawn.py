# SPDX-License-Identifier: BSL-1.0
"""A chart as a page holds it: an SVG that needs no script, and a Vega specification that a script makes of it a drawing
that fits the window and answers to the mouse."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

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
    vega: str  # JSON that may stand in a <script>


def _specification(chart: alt.LayerChart, **changes) -> dict:
    spec = chart.properties(**changes).to_dict()
    # Altair refuses a colour that is not in the schema's list; Vega hands it on to the browser.
    return {**spec, "config": theme.CONFIG, "autosize": {"type": "fit-x", "contains": "padding"}}


def svg_of(chart: alt.LayerChart, width: int = WIDTH) -> str:
    return vl_convert.vegalite_to_svg(_specification(chart, width=width))


def standalone_svg(chart: alt.LayerChart, description: str) -> str:
    """For a README: with a title, and colours of its own in either scheme."""
    svg = svg_of(chart)
    head, body = svg.split(">", 1)
    return f'{head} role="img"><title>{_escaped(description)}</title>{ALONE}{body}\n'


def draw(name: str, title: str, description: str, chart: alt.LayerChart) -> Drawn:
    vega = vl_convert.vegalite_to_vega(_specification(chart, width="container"))
    return Drawn(name, title, description, svg_of(chart), script_json(vega))


def script_json(value: object) -> str:
    """Nothing in it ends the <script> it stands in, whatever a results file says."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@cache
def runtime() -> str:
    """Vega and its tooltips, from the package that converts: nothing is fetched."""
    return vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;").replace("</script", "<\\/script")
