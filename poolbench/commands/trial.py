# SPDX-License-Identifier: BSL-1.0
"""What the commands that measure have in common: what is built and measured for one answer, the answer, the end."""

import tempfile
from collections.abc import Container
from pathlib import Path

import typer

from poolbench.errors import BadInput
from poolbench.measure.calibrate import calibrated
from poolbench.measure.run_plan import RunPlan, carry_out
from poolbench.measure.stopping import Rule
from poolbench.options import complain, origin, progress_stream, say
from poolbench.plan.cell import Cell
from poolbench.plan.program import Program
from poolbench.results.read import Results
from poolbench.results.store import check_writable
from poolbench.system.mallocs import Malloc

LIMIT = 120.0  # seconds that a run may take
MOST_RUNS = 15
START_SECONDS = 0.1  # of a process
PRECISION = 0.02


def check_new(output: Path | None) -> None:
    if output is not None and output.exists():
        raise BadInput(f"{output} exists: name a new file")
    if output is not None and not output.parent.is_dir():
        raise BadInput(f"{output} cannot be written: there is no such directory")
    if output is not None:  # before a build of minutes
        check_writable(output)


def cells_of(
    bench: Program, workload: str, variant: str, libraries: list[Malloc], on_every: Container[str], **point
) -> list[Cell]:
    """Of each contender: `on_every` malloc, or on glibc's alone."""
    return [
        Cell(workload, variant, contender, malloc.name, bench.toolchain, bench.optimisation, **point)
        for contender in bench.workloads[workload].contenders[variant]
        for malloc in (libraries if contender in on_every else libraries[:1])
    ]


def expected(cells: int, samples: int, run_seconds: float, budget: float) -> str:
    """How long the measurement takes: what is required, and more as far as the budget goes."""
    least = cells * samples * (run_seconds + START_SECONDS)
    return f"{cells} cells, {least:,.0f} to {max(least, budget):,.0f} s"


def measured(
    name: str, cells: list[Cell], bench: Program, libraries: list[Malloc], output: Path | None, *, run_seconds: float,
    samples: int, budget: float, seed: int,
) -> Results:  # fmt: skip
    """The cells at the scale at which a timed run takes so long; kept where `output` says, if it does."""
    cells = calibrated(cells, bench, libraries[0], run_seconds, LIMIT)
    rule = Rule(samples, max(samples, MOST_RUNS), PRECISION, budget=budget)
    with tempfile.TemporaryDirectory(prefix="poolbench-") as directory:
        path = output or Path(directory) / f"{name}.jsonl"
        plan = RunPlan(path, name, cells, [bench], libraries, rule, LIMIT, seed=seed, kept=output is not None)
        return carry_out(plan, say, progress_stream())


def origin_of(results: Results, output: Path | None) -> str:
    return origin(results, "" if output else "results not kept (--output FILE keeps them)")


def tell_advice(title: str, estimated: list[dict], operation: str = "", busy: bool = False) -> None:
    """The table, and the advice in words; none of what a busy machine measured."""
    from poolbench import tables
    from poolbench.analysis import advice

    tables.print_text(tables.advice_sheet(title, estimated, operation))
    if busy:
        typer.echo(tables.BUSY)
        return
    for choice in advice.advise(estimated):
        for line in advice.in_words(choice):
            typer.echo(line)


def record(estimated: list[dict], busy: bool = False) -> dict:
    """The same for a program."""
    from poolbench.analysis import advice

    choices = [] if busy else [advice.record(choice) for choice in advice.advise(estimated)]
    return {"advice": choices, "measured": advice.records(estimated)}


def end(results: Results, where: str = "") -> None:
    """Names what failed; then the exit status is 1."""
    failed = results.failed_cells()
    for cell, failure in failed.items():
        complain(f"FAILED: {cell}: {failure.get('reason')}")
    if failed:
        complain(f"{len(failed)} cells failed{where}")
        raise typer.Exit(1)
