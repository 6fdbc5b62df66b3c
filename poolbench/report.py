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
    best = min(peer(base_name, None), default=None)
    ours = cell.contender.startswith(OURS_PREFIX)
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
        number(ratio(ns, best)) if ours else "",
        *[number(median(outcome.values(key)), 1) for key in extras],
        published(cell),
    ]  # fmt: skip


def experiment_table(group: tuple, members: list[Outcome]) -> Table:
    base = "raw_new" if group[0] == "e3_pointer_overhead" else "make_shared"
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
        out.print(experiment_table(group, members))
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
