# SPDX-License-Identifier: BSL-1.0
"""A run: takes samples until nothing is left to do, and writes each to the results file before the next is begun."""

from collections import Counter
from dataclasses import dataclass

from poolbench.measure import stopping
from poolbench.measure.progress import Progress
from poolbench.measure.sample import take
from poolbench.measure.stopping import Rule, State
from poolbench.plan.cell import Cell
from poolbench.plan.description import Description, default
from poolbench.plan.program import Program
from poolbench.results import record
from poolbench.results.read import Results
from poolbench.results.store import Store
from poolbench.system.mallocs import Malloc


@dataclass(frozen=True)
class Bench:
    """What cells are run with."""

    programs: dict[tuple[str, str], Program]  # by toolchain and optimisation
    mallocs: dict[str, Malloc]
    commit: str
    machine: str
    limit: float  # seconds that one run may take

    def program(self, cell: Cell) -> Program:
        return self.programs[cell.toolchain, cell.optimisation]


def states_of(cells: list[Cell], descriptions: dict[str, Description], found: Results) -> list[State]:
    """The cells with what the file already holds of them."""
    states = {}
    for cell in cells:
        description = descriptions.get(cell.workload) or default(cell.workload)
        states[cell] = State(cell, description.measure_of(cell.variant))
    for cell, sample in found.samples:
        if cell in states:
            states[cell].add(sample, float(sample.get("wall_seconds", 0.0)))
    for cell, failure in found.failed_cells().items():
        if cell in states:
            states[cell].failure = failure
    return list(states.values())


def measure(
    states: list[State],
    rule: Rule,
    bench: Bench,
    store: Store,
    seed: int,
    progress: Progress,
) -> None:
    """Raises CannotWrite, or KeyboardInterrupt: what was measured until then is in the file."""
    counts: Counter[str] = Counter(
        {"runs": sum(s.runs for s in states), "failed": sum(bool(s.failure) for s in states)}
    )
    while chosen := stopping.next_round(states, rule, seed):
        for state in chosen:
            left = stopping.seconds_left(states, rule)
            progress.step(counts["runs"], left, counts["failed"], str(state.cell))
            program = bench.program(state.cell)
            result = take(state.cell, program, bench.mallocs[state.cell.malloc], bench.limit)
            about = {
                "cell": state.cell.to_record(),
                "commit": bench.commit,
                "machine": bench.machine,
                "program": program.sha256,
                "wall_seconds": round(result.seconds, 3),
            }
            counts["runs"] += 1
            if result.sample is not None:
                store.append(record.line("sample", **about, **result.sample))
                state.add(result.sample, result.seconds)
            else:
                state.failure = result.failure
                counts["failed"] += 1
                store.append(record.line("failure", **about, **result.failure))
    store.append(record.line("finished", runs=counts["runs"], failed=counts["failed"]))
