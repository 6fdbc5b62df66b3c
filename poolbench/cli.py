# SPDX-License-Identifier: BSL-1.0
"""The commands: quick (what `make bench` runs) and smoke (what CI runs).

Exit status: 0 done, 1 a cell failed, 2 the command line was wrong or nothing is built, 130 interrupted.
"""

from __future__ import annotations

import datetime
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, TextIO

import typer

from poolbench import machine, plan, report, runner

ROOT = Path(__file__).resolve().parent.parent
UNOPTIMISED = "-O0"

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Runs pooled's benchmark.")

BIN_HELP = "A built pooled-bench; its pooled-bench-O0 is found beside it. Default: those under build/*/bench."
BUDGET_HELP = "Seconds of measuring; when they do not suffice, optional cells run fewer times."
Bin = Annotated[list[str] | None, typer.Option("--bin", metavar="TOOLCHAIN=PATH", help=BIN_HELP)]
Rounds = Annotated[int, typer.Option(min=1, max=1000, help="Process runs of each cell.")]
Budget = Annotated[float, typer.Option(min=1, max=1e6, help=BUDGET_HELP)]
Timeout = Annotated[float, typer.Option(min=1, max=1e6, help="Seconds after which one run counts as failed.")]
Workloads = Annotated[list[str] | None, typer.Option(help="This workload only (may be given several times).")]
Output = Annotated[Path | None, typer.Option(help="Directory of the results file. Default: bench/results.")]


def fail(message: str) -> typer.Exit:
    typer.echo(f"poolbench: {message}", err=True)
    return typer.Exit(2)


def executables(options: list[str] | None) -> list[plan.Executable]:
    named: list[tuple[str, Path]] = []
    for option in options or []:
        toolchain, separator, path = option.partition("=")
        if not toolchain or not separator or not path:
            raise fail(f"--bin takes TOOLCHAIN=PATH, not '{option}'")
        if not Path(path).is_file():
            raise fail(f"--bin {option}: there is no such file; build it first")
        named.append((toolchain, Path(path)))
    if not options:
        named = [(p.parent.parent.name, p) for p in sorted(ROOT.glob("build/*/bench/pooled-bench"))]
    if not named:
        raise fail("no pooled-bench is built: `make bench` builds it, --bin names one elsewhere")
    found = []
    for toolchain, path in named:
        for candidate in (path, path.with_name(path.name + UNOPTIMISED)):
            if candidate == path or candidate.is_file():
                try:
                    found.append(plan.load_executable(toolchain, candidate.resolve()))
                except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                    raise fail(f"{candidate} cannot be asked what it measures: {error}") from error
    return found


def session(name: str, cells: list[plan.Cell], notes: list[str], sink: TextIO | None, *, rounds: int,
            timeout: float, budget: float) -> tuple[list[runner.Outcome], bool]:  # fmt: skip
    """Runs the cells; returns what was found and whether the user stopped it."""

    def record(line: dict) -> None:
        if sink is not None:
            sink.write(json.dumps(line) + "\n")
            sink.flush()

    record({"record": "session", "command": name, "started": datetime.datetime.now(datetime.UTC).isoformat(),
            "commit": machine.commit(ROOT), "machine": machine.describe(), "cells": len(cells),
            "rounds": rounds, "notes": notes})  # fmt: skip
    outcomes: list[runner.Outcome] = []
    progress = runner.Progress(len(cells) * rounds)
    interrupted = False
    try:
        runner.run_rounds(cells, rounds, timeout, budget, record, progress, outcomes)
    except KeyboardInterrupt:
        interrupted = True
        record({"record": "interrupted"})
    progress.close()
    return outcomes, interrupted


@app.command()
def quick(
    bin: Bin = None,
    rounds: Rounds = 3,
    budget: Budget = 270,
    timeout: Timeout = 60,
    workload: Workloads = None,
    output: Output = None,
) -> None:
    """Every workload at quick scale, on every malloc installed, in at most five minutes."""
    if math.isnan(budget) or math.isnan(timeout):  # which no range excludes
        raise fail("--budget and --timeout are numbers of seconds")
    begun = time.monotonic()
    built = executables(bin)
    mallocs, missing = machine.find_mallocs()
    notes = [f"mallocs: {', '.join(f'{m.name} {m.version}' for m in mallocs)}"]
    notes += [f"skipped: {why}" for why in missing.values()]
    notes += [f"skipped: {why}" for why in plan.not_built(built)]
    if warning := machine.busy_warning(machine.busy_share()):  # now, before this session itself loads the machine
        notes.append(warning)
    for note in notes:
        typer.echo(note, err=True)
    cells = plan.quick(built, mallocs)
    if not cells:
        kinds = ", ".join(sorted({e.optimisation for e in built}))
        raise fail(f"nothing to measure: quick wants a Release build (-O3), there is {kinds}")
    if workload:
        known = sorted({c.workload for c in cells})
        if unknown := [w for w in workload if w not in known]:
            raise fail(f"no workload {', '.join(unknown)}; there are: {', '.join(known)}")
        cells = [c for c in cells if c.workload in workload]

    directory = output or ROOT / "bench" / "results"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-quick.jsonl"
    with path.open("w") as sink:
        outcomes, interrupted = session("quick", cells, notes, sink, rounds=rounds, timeout=timeout, budget=budget)
    report.print_session(outcomes, [*notes, f"{time.monotonic() - begun:.0f} s; results: {path}"])
    if interrupted:
        typer.echo("poolbench: interrupted; the tables show what was measured until then", err=True)
        raise typer.Exit(130)
    if any(o.failures for o in outcomes):
        raise typer.Exit(1)


@app.command()
def smoke(bin: Bin = None, timeout: Timeout = 60) -> None:
    """Every workload and contender once at a tiny scale: that they run and count, not how fast."""
    built = executables(bin)
    for why in plan.not_built(built):
        typer.echo(f"skipped: {why}", err=True)
    cells = plan.smoke(built, machine.find_mallocs([])[0])
    outcomes, interrupted = session("smoke", cells, [], None, rounds=1, timeout=timeout, budget=float("inf"))
    failed = [o for o in outcomes if o.failures]
    for outcome in failed:
        typer.echo(f"FAILED: {outcome.cell.name()}: {outcome.failures[0]}", err=True)
    typer.echo(f"{sum(bool(o.samples) for o in outcomes)} of {len(cells)} cells ran, {len(failed)} failed")
    if interrupted:
        raise typer.Exit(130)
    if failed or not cells:
        raise typer.Exit(1)


if __name__ == "__main__":
    sys.exit(app())
