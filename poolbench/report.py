# SPDX-License-Identifier: BSL-1.0
"""Tables of a session on standard output."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from rich.console import Console
from rich.table import Table

from poolbench import figures
from poolbench.plan import Cell
from poolbench.runner import Outcome
from poolbench.stats import median, ratio, spread

PUBLISHED = tomllib.loads(Path(__file__).with_name("published.toml").read_text())
OURS_PREFIX = "pooled"
# What the ratios of a table are taken against, where it is not make_shared.
BASES = {
    ("e3_pointer_overhead", "create"): "raw_new",
    ("e3_pointer_overhead", "memory"): "raw_new",
    ("e3_pointer_overhead", "pass"): "pass_raw_pointer",
    ("e3_pointer_overhead", "vector"): "vector_raw_pointer",
}
GROWTH_WORKLOAD = "e7_random_replacement"
GROWTH_CONTENDERS = ("pooled", "make_shared")
GROWTH_USUAL = {"threads": 2, "live": 10_000}
# Figures a workload reports beside its time, with the heading they get.
EXTRA_COLUMNS = {
    "ms_per_run": "ms per burst",
    "sizeof_pointer": "sizeof",
    "control_block_bytes": "control block",
    "resident_bytes_per_object": "resident B each",
    "resident_mib_after_drop": "MiB after drop",
    "resident_mib_after_trim": "MiB after trim",
    "growth_mib": "MiB grown",
    "bytes_touched": "bytes touched",
}


def console(stream=None) -> Console:
    """Never an escape sequence into a pipe, whatever FORCE_COLOR says, nor where NO_COLOR is set."""
    stream = stream or sys.stdout
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    return Console(file=stream, highlight=False, force_terminal=coloured, no_color=not coloured,
                   color_system="auto" if coloured else None,
                   width=None if stream.isatty() else 160)  # fmt: skip


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def published(cell: Cell) -> str:
    """The published figure that belongs beside a cell, in its own unit."""
    data = PUBLISHED.get(cell.workload)
    toolchain, malloc = cell.executable.toolchain, cell.malloc.name
    if data is None or cell.executable.optimisation != "-O3":
        return ""
    if cell.workload == "e1_list_churn" and cell.variant == data["variant"]:
        seconds = data["seconds"].get(toolchain, {}).get(malloc, {}).get(cell.contender)
        return "" if seconds is None else f"{seconds:g} s = {seconds * 1e9 / data['timed_nodes']:.0f} ns"
    if cell.workload == "e2_packet_burst" and cell.payload == data["payload"] and malloc == "glibc":
        found = [by_name.get(cell.contender) for by_name in data["ms"].values()]
        return "" if None in found else " / ".join(f"{ms:g}" for ms in found) + " ms"
    return ""


def groups(outcomes: list[Outcome]) -> dict[tuple, list[Outcome]]:
    found: dict[tuple, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.cell.group(), []).append(outcome)
    return found


def title(group: tuple) -> str:
    workload, variant, payload, threads, live = group
    parts = [f"{workload}, variant {variant}"]
    parts += [f"{value} {unit}" for value, unit in
              ((payload, "B payload"), (threads, "threads"), (live, "live")) if value is not None]  # fmt: skip
    return ", ".join(parts)


def row(outcome: Outcome, members: list[Outcome], base_name: str, extras: list[str]) -> list[str]:
    cell = outcome.cell
    ns = median(outcome.values("ns_per_op"))

    def peer(contender: str, malloc: str | None) -> list[float]:
        return [m for o in members
                if o.cell.contender == contender and o.cell.executable == cell.executable
                and malloc in (None, o.cell.malloc.name)
                and (m := median(o.values("ns_per_op"))) is not None]  # fmt: skip

    same_malloc = peer(base_name, cell.malloc.name)
    # "The best malloc" needs several to choose from.
    mallocs = peer("make_shared", None)
    best = min(mallocs) if len(mallocs) > 1 and cell.contender.startswith(OURS_PREFIX) else None
    toolchain = cell.executable.toolchain
    if cell.executable.optimisation != "-O3":
        toolchain += " " + cell.executable.optimisation
    usual = max(o.cell.scale for o in members)
    return [
        cell.contender + (f" (scale {cell.scale:g})" if cell.scale != usual else ""), toolchain, cell.malloc.name,
        "FAILED" if outcome.failures else number(ns),
        f"±{50 * s:.0f} %" if (s := spread(outcome.values("ns_per_op"))) is not None else "-",
        str(len(outcome.samples)),
        number(ratio(ns, same_malloc[0] if same_malloc else None)),
        number(ratio(ns, best)) if best else "",
        *[number(median(outcome.values(key)), 1) for key in extras],
        published(cell),
    ]  # fmt: skip


def experiment_table(group: tuple, members: list[Outcome]) -> Table:
    base = BASES.get(group[:2], "make_shared")
    operation = next((o.samples[0]["operation"] for o in members if o.samples), "")
    extras = [k for k in EXTRA_COLUMNS if any(o.values(k) for o in members)]
    table = Table(title=title(group), caption=f"one op: {operation}", title_justify="left", caption_justify="left")
    for heading in ("contender", "toolchain", "malloc"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ns/op", "spread", "runs", f"÷ {base}", "ours ÷ best malloc", *[EXTRA_COLUMNS[k] for k in extras]):
        table.add_column(heading, justify="right")
    table.add_column("published")
    fastest_first = sorted(members, key=lambda o: (o.cell.executable.toolchain, o.cell.executable.optimisation,
                                                   median(o.values("ns_per_op")) or float("inf")))  # fmt: skip
    for outcome in fastest_first:
        table.add_row(*row(outcome, members, base, extras))
    return table


def is_growth(group: tuple, members: list[Outcome]) -> bool:
    """Groups that are only points of a growth table: a table each would say nothing."""
    return group[0] == GROWTH_WORKLOAD and {o.cell.contender for o in members} <= set(GROWTH_CONTENDERS)


def growth_table(axis: str, outcomes: list[Outcome]) -> Table:
    """ns per operation of both contenders on glibc along one axis, the other one at its usual value."""
    other, usual = next((k, v) for k, v in GROWTH_USUAL.items() if k != axis)
    table = Table(title=f"{GROWTH_WORKLOAD}: how cost grows with {axis} ({other}: {usual:,})", title_justify="left")
    ours, theirs = GROWTH_CONTENDERS
    for heading in (axis, f"{theirs} on glibc, ns/op", f"{ours}, ns/op", f"{ours} ÷ {theirs}"):
        table.add_column(heading, justify="right")
    points: dict[int, dict[str, float | None]] = {}
    for o in outcomes:
        cell = o.cell
        if cell.workload == GROWTH_WORKLOAD and getattr(cell, other) == usual and cell.malloc.name == "glibc":
            points.setdefault(getattr(cell, axis), {})[cell.contender] = median(o.values("ns_per_op"))
    for value, found in sorted(points.items()):
        mine, base = found.get(ours), found.get(theirs)
        table.add_row(f"{value:,}", number(base), number(mine), number(ratio(mine, base)))
    return table


def figures_table(outcomes: list[Outcome]) -> Table:
    table = Table(title="the figures of issue 2, section 5", title_justify="left",
                  caption="ratios of medians; the best malloc is the fastest make_shared of this session",
                  caption_justify="left")  # fmt: skip
    for heading in ("work", "against"):
        table.add_column(heading)
    for heading in ("asked", "measured", "met"):
        table.add_column(heading, justify="right")
    for figure in figures.load():
        verdict = figures.judge(figure, outcomes)
        table.add_row(verdict.work, verdict.against, verdict.asked, number(verdict.measured), verdict.word())
    return table


def print_session(outcomes: list[Outcome], notes: list[str]) -> None:
    out = console()
    for group, members in groups(outcomes).items():
        if not is_growth(group, members):
            out.print(experiment_table(group, members))
            out.print()
    if any(o.cell.workload == GROWTH_WORKLOAD for o in outcomes):
        for axis in GROWTH_USUAL:
            out.print(growth_table(axis, outcomes))
            out.print()
    out.print(figures_table(outcomes))
    for note in notes:
        out.print(note)
    for outcome in outcomes:
        if outcome.dropped:
            out.print(f"fewer runs for want of time: {outcome.cell.name()}")
    for outcome in outcomes:
        for failure in outcome.failures:
            out.print(f"FAILED: {outcome.cell.name()}: {failure}")
