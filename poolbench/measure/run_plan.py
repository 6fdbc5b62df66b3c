# SPDX-License-Identifier: BSL-1.0
"""A run as one value, and carrying it out: the session's record, then samples until nothing is left to do."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from poolbench.measure import stopping
from poolbench.measure.progress import Progress, duration
from poolbench.measure.sample import take
from poolbench.measure.stopping import Rule, State, pair
from poolbench.plan.cell import Cell
from poolbench.plan.description import Description, default
from poolbench.plan.program import Program, not_built
from poolbench.results import record
from poolbench.results.read import MOVED, SHARED, Results, core_shared, hand_over, read
from poolbench.results.store import Store
from poolbench.system import hardware
from poolbench.system.mallocs import Malloc
from poolbench.where import of_sources

SEED = 1  # of the order within a round
AGAIN = 3  # samples at most that take the place of one while the processors are further apart than they were, or shared
RECENT = 40  # samples; while three of four of them were shared with others, waiting does not help


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
    seed: int = SEED
    kept: bool = True  # the file, when the command ends
    costs: dict[Cell, float] = field(default_factory=dict)  # seconds that a process is expected to take
    paired: bool = False  # cells that differ in the executable alone are judged by their quotients

    def program(self, cell: Cell) -> Program:
        """Of its toolchain and optimisation; where several are, each has contenders of its own."""
        built = [p for p in self.programs if (p.toolchain, p.optimisation) == (cell.toolchain, cell.optimisation)]
        return built[0] if len(built) == 1 else next(program for program in built if program.has(cell))


def states_of(plan: RunPlan, found: Results) -> list[State]:
    """The cells with what the file already holds of them."""
    from poolbench.analysis import headlines  # SciPy takes half a second to load

    states = {}
    for cell in plan.cells:
        description = plan.descriptions.get(cell.workload) or default(cell.workload)
        state = states[cell] = State(cell, description.measure_of(cell.variant), plan.costs.get(cell))
        if not plan.paired and (row := headlines.headline_of(cell, description)):
            state.headline, state.measure, state.is_ours = row.work, row.measure, cell.contender == headlines.OURS
    found = found.only(set(states))
    for cell, sample in found.samples:
        states[cell].add(sample, float(sample.get("wall_seconds", 0.0)))
    for cell, failure in found.failed_cells().items():
        states[cell].failure = failure
    return list(states.values())


def measure(plan: RunPlan, states: list[State], store: Store, progress: Progress, **about: str) -> None:
    """`about`: what each line says of the run. Raises Failed, or KeyboardInterrupt: what was measured until then is in
    the file."""
    runs, failed = sum(state.runs for state in states), sum(bool(state.failure) for state in states)
    least, recent = float("inf"), deque([False], maxlen=RECENT)
    mallocs = {malloc.name: malloc for malloc in plan.mallocs}
    while chosen := stopping.next_round(states, plan.rule, plan.seed):
        for state in chosen:
            progress.step(runs, stopping.seconds_left(states, plan.rule), failed, str(state.cell))
            program, seconds = plan.program(state.cell), 0.0
            for _ in range(1 + AGAIN):
                result = take(state.cell, program, mallocs[state.cell.malloc], plan.limit)
                seconds += result.seconds
                word, is_shared = hand_over(result.sample or {}), core_shared(result.sample or {}) > SHARED
                least = min(least, word or least)
                recent.append(is_shared)
                would_help = bool(state.headline) and sum(recent) < 0.75 * len(recent)
                if word <= MOVED * least and not (is_shared and would_help):
                    break
            what = {"cell": state.cell.to_record(), **about, "program": program.sha256}
            what["wall_seconds"] = round(seconds, 3)
            runs += 1
            if result.sample is not None:
                store.append(record.line("sample", **what, **result.sample))
                state.add(result.sample, seconds)
            else:
                state.failure = result.failure
                failed += 1
                store.append(record.line("failure", **what, **result.failure))
    store.append(record.line("finished", runs=runs, failed=failed))


def carry_out(plan: RunPlan, say: Callable[[str], None], progress: TextIO | None) -> Results:
    """Raises what `Store` and `measure` raise: what was measured until then is in the file."""
    for why in not_built(plan.programs):
        say(f"left out: {why}")
    busy = hardware.busy_share()  # now, before this run itself loads the machine
    if warning := hardware.busy_warning(busy):
        say(warning)
    machine, here, least = hardware.describe(), of_sources(), plan.rule.least
    budget = plan.rule.budget if plan.rule.budget < float("inf") else None  # JSON knows no infinity
    with Store(plan.path) as store:
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
                rule={**vars(plan.rule), "budget": budget},
                notes=[warning] if warning else [],
            )
        )
        states = states_of(plan, read(plan.path))
        if plan.paired:
            pair(states)
        there = sum(state.runs for state in states)
        took = f", about {duration(stopping.seconds_left(states, plan.rule))}" if plan.costs else ""
        say(f"going on with {plan.path}: {there} runs are there{took}" if there else
            f"{len(plan.cells)} cells, {least} run{'s' * (least != 1)} of each at least{took}"
            + f", results: {plan.path}" * plan.kept)  # fmt: skip
        began = time.monotonic()
        measure(plan, states, store, Progress(progress), commit=here, machine=hardware.in_short(machine))
        say(f"measured in {duration(time.monotonic() - began)}")
    return read(plan.path)
