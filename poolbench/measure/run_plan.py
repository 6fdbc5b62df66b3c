# SPDX-License-Identifier: BSL-1.0
"""A run as one value, and carrying it out: the session's record, then samples until nothing is left to do."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from poolbench.measure import session
from poolbench.measure.progress import Progress, duration
from poolbench.measure.stopping import Rule, pair
from poolbench.plan.cell import Cell
from poolbench.plan.description import Description
from poolbench.plan.program import Program, not_built
from poolbench.results import record
from poolbench.results.read import Results, read
from poolbench.results.store import Store
from poolbench.system import hardware
from poolbench.system.commit import of_sources
from poolbench.system.mallocs import Malloc

SEED = 1  # of the order within a round


@dataclass(frozen=True)
class RunPlan:
    path: Path  # of the results file, which may exist
    profile: str
    cells: list[Cell]
    programs: list[Program]
    mallocs: list[Malloc]
    rule: Rule
    limit: float  # seconds that one process may take
    selection: dict = field(default_factory=dict)
    descriptions: dict[str, Description] = field(default_factory=dict)
    retry_failed: bool = False
    seed: int = SEED
    kept: bool = True  # the file, when the command ends
    paired: bool = False  # cells that differ in the executable alone are judged by their quotients

    def bench(self, here: str, machine: dict) -> session.Bench:
        return session.Bench(
            {(p.toolchain, p.optimisation): p for p in self.programs},
            {m.name: m for m in self.mallocs},
            here,
            hardware.in_short(machine),
            self.limit,
        )


def carry_out(plan: RunPlan, say: Callable[[str], None], progress: TextIO | None) -> Results:
    """Raises what `Store` and `session.measure` raise: what was measured until then is in the file."""
    for why in not_built(plan.programs):
        say(f"left out: {why}")
    busy = hardware.busy_share()  # now, before this run itself loads the machine
    warning = hardware.busy_warning(busy)
    if warning:
        say(warning)
    machine, here = hardware.describe(), of_sources()
    with Store(plan.path) as store:
        found = read(plan.path)
        for cell in found.failed_cells() if plan.retry_failed else ():
            store.append(record.line("retried", cell=cell.to_record()))
        store.append(
            record.line(
                "session",
                profile=plan.profile,
                selection=plan.selection,
                commit=here,
                machine=machine,
                busy_share=round(busy, 3),
                mallocs=[{"name": m.name, "version": m.version, "path": m.path} for m in plan.mallocs],
                programs=[p.describe() for p in plan.programs],
                cells=len(plan.cells),
                rule=_rule_record(plan.rule),
                notes=[warning] if warning else [],
            )
        )
        states = session.states_of(plan.cells, plan.descriptions, read(plan.path))
        if plan.paired:
            pair(states)
        there = sum(state.runs for state in states)
        say(f"going on with {plan.path}: {there} runs are there" if there else
            f"{len(plan.cells)} cells, {_runs(plan.rule.least)} of each at least"
            + f", results: {plan.path}" * plan.kept)  # fmt: skip
        shown, began = Progress(progress), time.monotonic()
        session.measure(states, plan.rule, plan.bench(here, machine), store, plan.seed, shown)
        say(f"measured in {duration(time.monotonic() - began)}")
    return read(plan.path)


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"


def _rule_record(rule: Rule) -> dict:
    """JSON knows no infinity."""
    return {**vars(rule), "budget": None if rule.budget == float("inf") else rule.budget}
