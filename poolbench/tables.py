# SPDX-License-Identifier: BSL-1.0
"""Tables for people (text, Markdown) and for programs (JSON), all of the same rows."""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table

from poolbench.analysis.claims import counted
from poolbench.analysis.estimate import Rows
from poolbench.analysis.headlines import OUR_HANDLES, OURS, Lead, Verdict
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.analysis.rows import Figure, Row
from poolbench.analysis.rows import Group as Cells
from poolbench.options import colours
from poolbench.plan.description import MAIN_TOOLCHAIN
from poolbench.plan.selection import short
from poolbench.system.mallocs import OURS as OURS_PRELOADED

NONE = "–"
PIPE_WIDTH = 10_000  # nothing is cut off where no terminal is
CELL_PADDING = 3  # a space at each side, and between the columns
MOST_MALLOC_COLUMNS = 4  # of the summary: with more it is wider than a page


@dataclass(frozen=True)
class Sheet:
    """A table of words, before it has a format."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    words: set[str] = field(default_factory=set)  # columns that are set to the left


def number(value: float | None) -> str:
    """Three figures or so: what a median of five runs can tell."""
    if value is None or not math.isfinite(value):
        return NONE
    size = abs(value)
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:,.0f}"


def range_text(low: float, high: float) -> str:
    return f"{number(low)}…{number(high)}" if math.isfinite(high) else NONE


def interval(figure) -> str:
    """Of what has a lower and an upper end, or is None."""
    return range_text(figure.low, figure.high) if figure else NONE


def times(lead) -> str:
    return f"{number(lead.ratio)}× ({interval(lead)})"


def _row(row: Row, usual: float, headings: Iterable[str]) -> list[str]:
    cell, ratio = row.cell, NONE
    if row.ratio:
        bounds = "" if cell.contender == row.base else f" ({interval(row.ratio)})"
        ratio = number(row.ratio.median) + bounds
    return [
        cell.contender + (f" (scale {cell.scale:g})" if cell.scale != usual else ""),
        cell.toolchain + ("" if cell.optimisation == "-O3" else f" {cell.optimisation}"),
        cell.malloc,
        number(row.time.median) if row.time else "FAILED",
        interval(row.time),
        str(row.runs) + (" then FAILED" if row.failure and row.runs else ""),
        ratio,
        *[number(row.figures[name].median) if name in row.figures else NONE for name in headings],
    ]


def group_sheet(group: Cells) -> Sheet:
    """All cells that may be compared with each other."""
    headings = group.headings()
    usual = max((row.cell.scale for row in group.rows), default=1)
    base = group.description.base_of(group.variant)
    rows = [_row(row, usual, headings) for row in group.rows]
    columns = ["contender", "toolchain", "malloc", "ns/op", "95% interval", "runs", f"÷ {base}", *headings.values()]
    at = columns.index("toolchain")
    if {row[at] for row in rows} == {MAIN_TOOLCHAIN}:
        for row in (columns, *rows):
            del row[at]
    return Sheet(group.title, columns, rows, f"one op: {group.operation}", {"contender", "toolchain", "malloc"})


def lead_text(lead: Lead | None) -> str:
    return f"{times(lead)} {lead.verdict}" if lead else NONE


BUSY = (
    "The machine was busy with other work, so nothing is recommended: run it again while nothing else runs, or with "
    "more processes (--samples)."
)


def deciding(rows: Iterable[HeadlineRow], busy: bool = False) -> str:
    """What would decide what is undecided; empty when nothing is."""
    if busy:
        return BUSY
    open_ = [r for r in rows for lead in (r.over_glibc, r.over_best) if lead and lead.verdict is Verdict.undecided]
    if not open_:
        return ""
    works = ",".join(dict.fromkeys(short(row.workload) for row in open_))
    runs = max(len(row.ours[OURS]["values"]) for row in open_)
    return f"undecided: poolbench run -w {works} --samples {4 * runs} --fresh would halve the intervals"


def summary_sheet(rows: Iterable[HeadlineRow], busy: bool = False) -> Sheet:
    """A row a work: make_shared on the mallocs, ours, the limit."""
    rows = list(rows)
    mallocs = list(dict.fromkeys(name for row in rows for name in row.mallocs))
    best = len(mallocs) > MOST_MALLOC_COLUMNS  # instead of all but glibc
    if best:
        mallocs = [name for name in mallocs if name == "glibc"]
    preloaded = [OURS_PRELOADED] if any(row.preloaded for row in rows) else []
    handles = [name for name in OUR_HANDLES if any(name in row.ours for row in rows)]
    table = []
    for row in rows:
        limit = f"{number(row.limit['median'])} ({row.headline.limit_is})" if row.limit else ""
        table.append(
            [
                row.headline.work,
                lead_text(row.over_glibc),
                lead_text(row.over_best) if row.over_best else f"not measured on {', '.join(row.not_measured)}",
                *[number(row.mallocs[name]["median"]) if name in row.mallocs else NONE for name in mallocs],
                *([f"{number(row.mallocs[row.best]['median'])} ({row.best})"] if best else []),
                *([number(row.preloaded["median"]) if row.preloaded else NONE] if preloaded else []),
                *[number(row.ours[name]["median"]) if name in row.ours else NONE for name in handles],
                limit,
            ]
        )
    return Sheet(
        "Nanoseconds per object: std::make_shared on each malloc, and pooled",
        ["work", "glibc ÷ pooled", "best malloc ÷ pooled", *mallocs, *(["best malloc"] if best else []),
         *preloaded, *[OUR_HANDLES[name] for name in handles], "limit"],
        table,
        "medians of interleaved process runs; in brackets the 95% interval of the quotient; glibc: the better of new "
        "and make_shared; even: all of the interval within 5%; ahead, behind: all of it above 1 or below; "
        + (deciding(rows, busy) or "nothing is undecided"),
        {"work", "glibc ÷ pooled", "best malloc ÷ pooled", "limit"},
    )  # fmt: skip


def console() -> Console:
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(color_system="auto" if colours() else None, width=width, highlight=False, markup=False)


def _least_widths(sheet: Sheet) -> list[int]:
    """Of each column: its longest word."""
    cells = [[name, *(row[at] for row in sheet.rows)] for at, name in enumerate(sheet.columns)]
    return [max((len(word) for cell in column for word in cell.split()), default=1) for column in cells]


def fitting(sheet: Sheet, width: int) -> list[Sheet]:
    """The sheet, divided into several with the first column each if one would have to break words."""
    least = [each + CELL_PADDING for each in _least_widths(sheet)]
    parts, used = [[0]], 1 + least[0]
    for at in range(1, len(least)):
        if used + least[at] > width and len(parts[-1]) > 1:
            parts.append([0])
            used = 1 + least[0]
        parts[-1].append(at)
        used += least[at]
    titles = [sheet.title, *[f"{sheet.title}, continued"] * (len(parts) - 1)]
    notes = [*[""] * (len(parts) - 1), sheet.note]
    return [
        Sheet(
            title, [sheet.columns[i] for i in part], [[row[i] for i in part] for row in sheet.rows], note, sheet.words
        )
        for title, part, note in zip(titles, parts, notes, strict=True)
    ]


def _widths(sheet: Sheet, width: int) -> list[int]:
    """At least the longest word; what is left goes where the most would have to be wrapped."""
    found = _least_widths(sheet)
    whole = [
        max(len(cell) for cell in (name, *(row[at] for row in sheet.rows))) for at, name in enumerate(sheet.columns)
    ]
    for _ in range(width - 1 - sum(each + CELL_PADDING for each in found)):
        at = max(range(len(found)), key=lambda i: whole[i] - found[i])
        if whole[at] <= found[at]:
            break
        found[at] += 1
    return found


def print_text(sheet: Sheet) -> None:
    out = console()
    for part in fitting(sheet, out.width):
        table = Table(
            title=part.title, caption=part.note, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD
        )
        for name, width in zip(part.columns, _widths(part, out.width), strict=True):
            justify = "left" if name in part.words else "right"
            table.add_column(name, justify=justify, overflow="fold", width=width)
        for row in part.rows:
            table.add_row(*row)
        out.print(table)
        out.print()


def markdown(sheet: Sheet) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = line("---" if name in sheet.words else "---:" for name in sheet.columns)
    parts = [f"### {sheet.title}", "", line(sheet.columns), rule, *(line(row) for row in sheet.rows), ""]
    return "\n".join([*parts, *([sheet.note, ""] if sheet.note else [])])


def records(groups: Iterable[Cells]) -> list[dict]:
    """Everything, for programs: numbers stay numbers."""

    def figure(found: Figure) -> dict:
        """JSON knows no infinity: one run has no interval."""
        high = found.high if math.isfinite(found.high) else None
        return {"median": found.median, "low": found.low if high is not None else None, "high": high}

    return [
        {
            **row.cell.to_record(),
            "runs": row.runs,
            "ns_per_op": figure(row.time) if row.time else None,
            "figures": {name: figure(found) for name, found in row.figures.items()},
            "base": row.base,
            "ratio_to_base": row.ratio.median if row.ratio else None,
            "ratio_low": figure(row.ratio)["low"] if row.ratio else None,
            "ratio_high": figure(row.ratio)["high"] if row.ratio else None,
            "failure": row.failure or None,
        }
        for group in groups
        for row in group.rows
    ]


def difference_sheet(title: str, differences: list, fail_above: float) -> Sheet:
    of_cells, rows = any(each.cell for each in differences), []
    for each in differences:
        verdict = "REGRESSION" if each.regression(fail_above) else str(each.verdict(fail_above))
        what = each.what if each.cell else f"{each.what} ({each.cells} cells)"
        sides = [number(each.before), number(each.after)] if of_cells else []
        ends = f"{each.low - 1:+.1%}…{each.high - 1:+.1%}" if each.high < 1e6 else NONE
        rows.append([what, *sides, f"{each.ratio - 1:+.1%}", ends, verdict])
    columns = ["what", *(["before", "after"] if of_cells else []), "change", "95% interval", "verdict"]
    note = f"+: the second is slower; equal: shown to be within {fail_above:.0%}"
    return Sheet(title, columns, rows, note, {"what", "verdict"})


def claim_test_text(test) -> str:
    if test.value is None:
        return f"{test.what}: {test.why}"
    spread = f" ({interval(test)})" if test.low is not None else ""
    why = f" [{test.why}]" if test.why else ""
    return f"{test.what}: {number(test.value)}{spread}, bounds: {test.bounds}{why}"


def claim_title(claim) -> str:
    return claim.text + (f" [{claim.variant}]" if claim.variant and claim.workload.startswith("e1_") else "")


def print_claims(claims: Iterable) -> None:
    """As a list: sentences and commands do not fit into columns."""
    out = console()
    claims = list(claims)
    for claim in claims:
        out.print(f"{str(claim.verdict).upper()}  {claim_title(claim)}  ({claim.by})", soft_wrap=True)
        for test in claim.tests:
            out.print("    " + claim_test_text(test), soft_wrap=True)
    out.print(
        f"\nOf {len(claims)} claims {counted(claims)}. A quotient is one of medians; in brackets its 95% interval."
    )


def advice_sheet(title: str, estimated: Rows, operation: str = "") -> Sheet:
    from poolbench.analysis.advice import records

    rows = [
        [each["written"], each["malloc"], number(each["median"]), range_text(each["low"], each["high"])]
        for each in records(estimated)
    ]
    columns = ["handle", "malloc", "ns/op", "95% interval"]
    return Sheet(title, columns, rows, f"one op: {operation}" if operation else "", {"handle", "malloc"})
