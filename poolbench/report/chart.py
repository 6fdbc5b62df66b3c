# SPDX-License-Identifier: BSL-1.0
"""Charts: SVG that needs no script. A row has a name and marks, each a figure with its interval. Text and lines take
the colour of the text around them ("currentColor"), and the marks' colours keep a contrast of 3:1 with white and with
near-black, so one drawing serves light and dark pages."""

import math
import textwrap
from dataclasses import dataclass, field
from html import escape

from poolbench.analysis.headlines import OURS, Verdict, by_use
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.analysis.rows import Figure, Group
from poolbench.plan.description import MAIN_TOOLCHAIN, TIME
from poolbench.system.mallocs import OURS as OURS_PRELOADED
from poolbench.tables import number, range_text

HEADING, ROW, LETTER, LEGEND = 20, 30, 6.6, 18
NARROW, WIDE_IMAGE = 440, 600  # of a picture that stands alone: as drawn, and as shown where there is room
LEGEND_WIDTH = 340  # that of a phone
WIDE = 4  # the largest over the smallest value from which on a scale is logarithmic
COLOURS = {
    OURS: "#e2550f", "glibc": "#808080", "tcmalloc": "#2f7ed8", "jemalloc": "#1a9850", "mimalloc": "#a05fd0",
    "mimalloc2": "#c2407f", "mimalloc3": "#7d6bd9", "snmalloc": "#0d8a8a", "rpmalloc": "#8a6d3b",
    "jemalloc-crate": "#5f8f1a", "tcmalloc-google": "#1b4f9c", "pooled-new": "#b35900", "limit": "#b08800",
    "published": "#808080", "here": "#2f7ed8", "malloc": "#808080", "published structure": "#2f7ed8",
}  # fmt: skip
OTHER, GREY = "#5b7083", "#8b949e"
SHAPES = ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-4,-4h8v8h-8z", "M0,-5L5,4H-5z", "M0,-5L5,0L0,5L-5,0z",
          "M0,5L5,-4H-5z", "M-1.5,-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z")  # fmt: skip
# For an <img>, where no page gives it a colour.
ALONE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)


@dataclass(frozen=True)
class Mark:
    series: str
    figure: Figure


@dataclass(frozen=True)
class Line:
    """A row; without marks the heading of those below it."""

    name: str
    marks: list[Mark] = field(default_factory=list)
    note: str = ""  # at the right end
    sure: bool = True  # else the note is grey


@dataclass(frozen=True)
class Chart:
    """Places from left to right are shares of the width, so that letters keep their size on a phone."""

    title: str
    words: str  # for those who do not see it
    drawn: str
    height: int

    def _svg(self, size: str, inside: str = "") -> str:
        font = 'font-family="system-ui, sans-serif" font-size="12"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>{inside}{self.drawn}</svg>'

    @property
    def svg(self) -> str:
        return self._svg(f'width="100%" height="{self.height}"')

    def alone(self) -> str:
        """For a README: with a title, and colours of its own in either scheme."""
        size = f'viewBox="0 0 {NARROW} {self.height}" width="{WIDE_IMAGE}" role="img"'
        return self._svg(size, f"<title>{escape(self.words)}</title>{ALONE}") + "\n"


def _ends(figure: Figure) -> tuple[float, float]:
    """The interval of a single run is everything, and is not drawn."""
    return (figure.low, figure.high) if math.isfinite(figure.high) else (figure.median, figure.median)


def _text(x: str, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}"{more} fill="currentColor">{escape(words)}</text>'


def _ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    powers = [10.0**power for power in range(-4, 13)]
    if not logarithmic:
        step = next(base * power for power in powers for base in (1, 2, 5) if high - low <= 6 * base * power)
        return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    for bases in ((1, 3), (1, 2, 5)):
        ticks = [base * power for power in powers for base in bases if low <= base * power <= high]
        if len(ticks) > 2:
            break
    return ticks


def draw(title: str, words: str, axis: str, lines: list[Line]) -> Chart:
    """Each line of text lies above its marks."""
    values = [end for line in lines for mark in line.marks for end in (mark.figure.median, *_ends(mark.figure))]
    low, high = min(values), max(values)
    logarithmic = low > 0 and high > WIDE * low
    low, high = (low / 1.12, high * 1.12) if logarithmic else (min(low, 0.0), (high or 1.0) * 1.05)

    def at(value: float) -> str:
        share = math.log(value / low) / math.log(high / low) if logarithmic else (value - low) / (high - low)
        return f"{2 + 96 * share:.1f}%"

    series = list(dict.fromkeys(mark.series for line in lines for mark in line.marks))
    series.sort(key=lambda name: list(COLOURS).index(name) if name in COLOURS else len(COLOURS))
    shapes = {name: SHAPES[i % len(SHAPES)] for i, name in enumerate(series)}

    def symbol(name: str, x: str, y: float, what: str = "") -> str:
        told = f"<title>{escape(what)}</title>" if what else ""
        path = f'<path d="{shapes[name]}" fill="{COLOURS.get(name, OTHER)}">{told}</path>'
        return f'<svg class="mark" x="{x}" y="{y}" overflow="visible">{path}</svg>'

    def line(x: tuple[str, str], y: tuple[float, float], more: str) -> str:
        return f'<line x1="{x[0]}" x2="{x[1]}" y1="{y[0]}" y2="{y[1]}" {more}/>'

    parts, x, y = [], 0.0, 8
    for name in series:
        width = len(name) * LETTER + 24
        if x + width > LEGEND_WIDTH:
            x, y = 0.0, y + LEGEND
        parts += [symbol(name, f"{x + 6:.0f}", y), _text(f"{x + 15:.0f}", y + 4, name)]
        x += width
    top = y = y + LEGEND
    bottom = top + sum(ROW if line.marks else HEADING for line in lines)
    for tick in _ticks(low, high, logarithmic):
        parts.append(line((at(tick), at(tick)), (top, bottom), 'stroke="currentColor" stroke-opacity=".18"'))
        parts.append(_text(at(tick), bottom + 14, f"{tick:,g}", ' text-anchor="middle"'))
    for each in lines:
        weight = "" if each.marks else ' font-weight="bold"'
        parts.append(_text("0", y + 11, each.name, weight))
        for mark in each.marks:
            ends, colour = _ends(mark.figure), COLOURS.get(mark.series, OTHER)
            whisker = f'class="whisker" stroke="{colour}"'
            parts.append(line((at(ends[0]), at(ends[1])), (y + 20, y + 20), whisker))
            told = f"{each.name}, {mark.series}: {number(mark.figure.median)} ({range_text(*ends)})"
            parts.append(symbol(mark.series, at(mark.figure.median), y + 20, told))
        note = _text("100%", y + 11, each.note, ' text-anchor="end" font-weight="bold"') if each.note else ""
        parts.append(note if each.sure else note.replace("currentColor", GREY))
        y += ROW if each.marks else HEADING
    y = bottom + 14
    for words_of_axis in textwrap.wrap(axis, int(LEGEND_WIDTH / LETTER)):
        y += 16
        parts.append(_text("50%", y, words_of_axis, ' text-anchor="middle"'))
    return Chart(title, words, "".join(parts), y + 8)


def picture(rows: list[HeadlineRow]) -> Chart:
    """The first screen: how long each work takes, the best malloc being 1. Works of one use stand together under its
    name; a lead that is undecided is grey."""
    lines: list[Line] = []
    said: list[str] = []

    def relative(found: dict, unit: float) -> Figure:
        return Figure(found["median"] / unit, found["low"] / unit, found["high"] / unit)

    for use, members in by_use([row for row in rows if row.over_best]).items():
        lines += [Line(use)] if use else []
        for row in members:
            unit, lead = row.mallocs[row.best]["median"], row.over_best
            marks = [Mark(name, relative(found, unit)) for name, found in row.mallocs.items()]
            marks += [Mark(OURS_PRELOADED, relative(row.preloaded, unit))] if row.preloaded else []
            marks.append(Mark(OURS, relative(row.ours[OURS], unit)))
            marks += [Mark("limit", relative(row.limit, unit))] if row.limit else []
            sure = lead.verdict is not Verdict.undecided
            lines.append(Line(row.headline.work, marks, f"{number(lead.ratio)}× {row.best}{'' if sure else '?'}", sure))
            said.append(
                f"{row.headline.work}: pooled takes {number(1 / lead.ratio)} of the best malloc ({row.best}), "
                f"{lead.verdict}"
            )
    words = f"Time per object of each work, the best malloc being 1. {'; '.join(said)}."
    axis = "best malloc = 1; right: how many times as fast pooled is as it, grey where undecided"
    return draw("Time per object, the best malloc being 1", words, axis, lines)


def of_group(group: Group) -> Chart | None:
    """A row a contender, a mark a malloc, as GCC's optimised program measured them. Ours takes its memory from the
    system, whatever the malloc, and has a colour of its own."""
    measure = group.description.measure_of(group.variant)
    lines: dict[str, list[Mark]] = {}
    for row in group.rows:
        cell, figure = row.cell, row.time if measure == TIME else row.figures.get(measure)
        if figure is None or cell.toolchain != MAIN_TOOLCHAIN or cell.optimisation != "-O3":
            continue
        ours = cell.contender.startswith(OURS) and cell.malloc == "glibc"
        lines.setdefault(cell.contender, []).append(Mark(OURS if ours else cell.malloc, figure))
    if not lines:
        return None
    axis = "ns per operation" if measure == TIME else group.description.figures.get(measure, measure)
    first, last = list(lines)[0], list(lines)[-1]
    words = f"{axis} of {len(lines)} contenders: {first} {number(lines[first][0].figure.median)}"
    words += f", … {last} {number(lines[last][0].figure.median)}." if last != first else "."
    return draw(group.title, words, axis, [Line(name, marks) for name, marks in lines.items()])
