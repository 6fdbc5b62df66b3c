# SPDX-License-Identifier: BSL-1.0
"""Charts: SVG that needs no script. A row has a name and marks, each a figure with its interval. Text and lines take
the colour of the text around them ("currentColor"), and the marks' colours keep a contrast of 3:1 with white and with
near-black, so one drawing serves light and dark pages."""

import math
from dataclasses import dataclass, field
from html import escape

from poolbench.analysis.headlines import OURS, Verdict, by_use
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.analysis.rows import Figure, Group
from poolbench.plan.description import MAIN_TOOLCHAIN, TIME
from poolbench.tables import number, range_text

WIDTH, ROW, LETTER, TOP = 720, 22, 7.2, 40
WIDE = 4  # the largest over the smallest value from which on a scale is logarithmic
COLOURS = {
    OURS: "#e2550f", "glibc": "#808080", "tcmalloc": "#2f7ed8", "jemalloc": "#1a9850", "mimalloc": "#a05fd0",
    "mimalloc2": "#c2407f", "mimalloc3": "#7d6bd9", "snmalloc": "#0d8a8a", "rpmalloc": "#8a6d3b",
    "jemalloc-crate": "#5f8f1a", "limit": "#b08800",
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
    title: str
    words: str  # for those who do not see it
    svg: str

    def alone(self) -> str:
        """For a README: with a title, and colours of its own in either scheme."""
        head, body = self.svg.split(">", 1)
        return f'{head} role="img"><title>{escape(self.words)}</title>{ALONE}{body}\n'


def _ends(figure: Figure) -> tuple[float, float]:
    """The interval of a single run is everything, and is not drawn."""
    return (figure.low, figure.high) if math.isfinite(figure.high) else (figure.median, figure.median)


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more} fill="currentColor">{escape(words)}</text>'


def draw(title: str, words: str, axis: str, lines: list[Line]) -> Chart:
    values = [end for line in lines for mark in line.marks for end in (mark.figure.median, *_ends(mark.figure))]
    low, high = min(values), max(values)
    logarithmic = low > 0 and high > WIDE * low
    low, high = (low / 1.12, high * 1.12) if logarithmic else (0.0, (high or 1.0) * 1.05)
    left = max(len(line.name) for line in lines) * LETTER + 14
    right = WIDTH - 10 - max(len(line.note) for line in lines) * LETTER

    def at(value: float) -> float:
        share = math.log(value / low) / math.log(high / low) if logarithmic else value / high
        return left + share * (right - left)

    ticks = [base * 10.0**power for power in range(-4, 13) for base in (1, 3)] if logarithmic else []
    step = 10 ** math.floor(math.log10(high)) if not logarithmic else 0.0
    ticks = [tick for tick in ticks or [step * i / 2 for i in range(21)] if low <= tick <= high]
    bottom = TOP + ROW * len(lines)
    series = list(dict.fromkeys(mark.series for line in lines for mark in line.marks))
    series.sort(key=lambda name: list(COLOURS).index(name) if name in COLOURS else len(COLOURS))
    shapes = {name: SHAPES[i % len(SHAPES)] for i, name in enumerate(series)}

    def symbol(name: str, x: float, y: float, what: str = "") -> str:
        told = f"<title>{escape(what)}</title>" if what else ""
        return (
            f'<path class="mark" d="{shapes[name]}" transform="translate({x:.1f},{y:.1f})" '
            f'fill="{COLOURS.get(name, OTHER)}">{told}</path>'
        )

    parts, x = [], left
    for name in series:
        parts += [symbol(name, x, 14), _text(x + 9, 18, name)]
        x += len(name) * LETTER + 26
    for tick in ticks:
        parts.append(f'<path d="M{at(tick):.1f},{TOP - 8}V{bottom}" stroke="currentColor" stroke-opacity=".18"/>')
        parts.append(_text(at(tick), bottom + 14, f"{tick:,g}", ' text-anchor="middle"'))
    parts.append(_text((left + right) / 2, bottom + 32, axis, ' text-anchor="middle"'))
    for i, line in enumerate(lines):
        y = TOP + ROW * i + 6
        weight = "" if line.marks else ' font-weight="bold"'
        parts.append(_text(left - 10, y + 4, line.name, f' text-anchor="end"{weight}'))
        for mark in line.marks:
            ends, colour = _ends(mark.figure), COLOURS.get(mark.series, OTHER)
            parts.append(f'<path class="whisker" d="M{at(ends[0]):.1f},{y}H{at(ends[1]):.1f}" stroke="{colour}"/>')
            told = f"{line.name}, {mark.series}: {number(mark.figure.median)} ({range_text(*ends)})"
            parts.append(symbol(mark.series, at(mark.figure.median), y, told))
        note = _text(WIDTH - 4, y + 4, line.note, ' text-anchor="end" font-weight="bold"') if line.note else ""
        parts.append(note if line.sure else note.replace("currentColor", GREY))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 40}" width="{WIDTH}" '
    style = 'font-family="system-ui, sans-serif" font-size="12"'
    return Chart(title, words, f"{head}{style}>{''.join(parts)}</svg>")


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
            marks.append(Mark(OURS, relative(row.ours[OURS], unit)))
            marks += [Mark("limit", relative(row.limit, unit))] if row.limit else []
            sure = lead.verdict is not Verdict.undecided
            lines.append(Line(row.headline.work, marks, f"{number(lead.ratio)}× {row.best}{'' if sure else '?'}", sure))
            said.append(
                f"{row.headline.work}: pooled takes {number(1 / lead.ratio)} of the best malloc ({row.best}), "
                f"{lead.verdict}"
            )
    words = f"Time per object of each work, the best malloc being 1. {'; '.join(said)}."
    return draw("Time per object, the best malloc being 1", words, "best malloc = 1; grey: undecided", lines)


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
