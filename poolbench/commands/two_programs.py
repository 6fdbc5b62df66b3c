# SPDX-License-Identifier: BSL-1.0
"""What `compare --bin OLD --bin NEW` measures: both executables in one run, a process of each in turn.

Only what is named is built and measured, with a few controls. A first run of each, which is not counted, tells how long
the rest takes; the forecast is printed before the rest begins."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from poolbench.measure import pilot
from poolbench.measure.progress import Progress, duration
from poolbench.measure.run_plan import SEED, RunPlan, carry_out
from poolbench.measure.stopping import Rule
from poolbench.options import progress_stream, say
from poolbench.plan import controls, description, matrix, program
from poolbench.plan.cell import Cell
from poolbench.plan.selection import Selection, SelectionError
from poolbench.results import find
from poolbench.results.read import Results
from poolbench.results.store import check_writable
from poolbench.system import build, mallocs

OLD, NEW = "old", "new"  # stand for the toolchain in the cells of two executables
SIDES = (OLD, NEW)
PROFILE = "compare"
OURS = ("pooled.*", *sorted(description.OURS_TOO))  # to compile; a regular expression


@dataclass(frozen=True)
class Asked:
    """The command line's part of it."""

    paths: list[Path]
    chosen: Selection
    rule: Rule
    limit: float  # seconds of a process run
    output: Path | None
    seed: int = SEED


def measured(asked: Asked) -> Results:
    everything = description.load()
    asked.chosen.check("workload", everything)  # an error before a build of minutes
    if asked.output is not None and asked.output.is_dir():
        asked = dataclasses.replace(asked, output=find.new_path(PROFILE, asked.output))
    sides = [_executable(side, path, asked.chosen) for side, path in zip(SIDES, asked.paths, strict=True)]
    if sides[0].sha256 == sides[1].sha256:
        say("both are the same executable (same SHA-256): what follows shows what this machine takes for a difference")
    there = find.continued(asked.output, sides) if asked.output else None
    if asked.output:
        check_writable(asked.output)
    libraries, _ = mallocs.find()
    cells = _cells_of(there) if there else None
    if cells is None:
        cells = _tried(_common(sides, asked.chosen, libraries, everything), sides[0], libraries, asked)
    libraries = [each for each in libraries if each.name in {cell.malloc for cell in cells}]
    selection = {**asked.chosen.describe(), "cells": [cell.to_record() for cell in cells]}
    cells = [dataclasses.replace(cell, toolchain=side) for cell in cells for side in SIDES]
    path = asked.output or find.new_path(PROFILE, find.DIRECTORY)
    plan = RunPlan(
        path, PROFILE, cells, sides, libraries, asked.rule, asked.limit, selection, everything,
        seed=asked.seed, paired=True,
    )  # fmt: skip
    return carry_out(plan, say, progress_stream())


def of_sides(results: Results) -> list[Results]:
    """What each of the two measured, under the same cells."""

    def of(name: str) -> Results:
        part = results.only({cell for cell in results.cells() if cell.toolchain == name})
        same = {cell: dataclasses.replace(cell, toolchain=description.MAIN_TOOLCHAIN) for cell in part.cells()}
        return dataclasses.replace(
            part,
            samples=[(same[cell], sample) for cell, sample in part.samples],
            failures=[(same[cell], failure) for cell, failure in part.failures],
        )

    return [of(side) for side in SIDES]


def _executable(side: str, path: Path, chosen: Selection) -> program.Program:
    """The one named, or that of a checkout, built now."""
    if path.is_dir():
        if not (path / "bench" / "CMakeLists.txt").is_file():
            raise SelectionError(f"{path} is no checkout of pooled: it has no bench/CMakeLists.txt")
        probed = build.first_working()
        say(f"{side}: {path}")
        wanted = matrix.wanted_workloads("quick", description.load(), chosen) if chosen.workload else {}
        workloads = list(dict.fromkeys(name for names in wanted.values() for name in names))
        path = build.only(probed, workloads, [*OURS, *controls.COMPILED, *chosen.contender], say, path.resolve())
    return program.load(side, path.resolve())


def _common(sides: list[program.Program], chosen: Selection, libraries: list, everything: dict) -> list[Cell]:
    """The cells of the quick profile that both can measure, on glibc's malloc unless others are asked for; as cells of
    the old one."""
    names = [malloc.name for malloc in libraries]
    chosen.check("malloc", names)
    names = names if chosen.malloc else names[:1]
    found = [matrix.cells_of("quick", [side], names, everything) for side in sides]
    there = [{dataclasses.replace(cell, toolchain=OLD) for cell in cells} for cells in found]
    if left := len(there[0] ^ there[1]):
        say(f"{left} cells can be measured with one of the two alone: left out")
    if not there[0] & there[1]:
        raise SelectionError("the two executables have no cell in common (Release builds are wanted)")
    return [cell for cell in found[0] if cell in there[1]]


def _tried(cells: list[Cell], bench: program.Program, libraries: list, asked: Asked) -> list[Cell]:
    """Those asked for and the controls, at scales that suit; says what they will take."""
    named, candidates = controls.split(cells, asked.chosen)
    tries = [*named, *(controls.tried(cell) for cell in candidates)]
    say(f"a first run of {len(tries)} cells, not counted, shows how long they take")
    took = pilot.seconds_of(tries, bench, libraries, asked.limit, Progress(progress_stream()))
    beside = controls.quickest(named, {cell: s for cell, s in took.items() if cell not in set(named)})
    # One that failed takes no time; it is measured all the same, for its failure counts.
    longer = [controls.long_enough(cell, took.get(cell, asked.limit)) for cell in named]
    of_named = sum(took.get(cell, 0.0) * now.scale / cell.scale for cell, now in zip(named, longer, strict=True))
    say(forecast(len(named), len(beside), 2 * (of_named + controls.SECONDS * len(beside)), asked.rule))
    return [*longer, *beside]


def forecast(named: int, beside: int, seconds: float, rule: Rule) -> str:
    """`seconds`: of a round of both executables."""
    least, most = rule.least * seconds, max(rule.least, rule.most) * seconds
    longest = max(least, min(most, rule.budget))
    if longest > least * 1.1:
        runs = f"{rule.least} pairs of runs of each, more until its interval is within ±{rule.precision:.1%}"
        time = f"takes {duration(least)} to {duration(longest)}"
    else:
        runs, time = f"{rule.least} pairs of runs of each", f"takes about {duration(least)}"
    long = "; fewer: --workload, --contender, --samples" if least > rule.budget else ""
    return f"cells: {named}, controls: {beside}; {runs}: {time}{long}"


def _cells_of(there: Results) -> list[Cell] | None:
    """Those of the run that is continued; a new choice would differ."""
    try:
        return [Cell.from_record(record) for record in there.session["selection"]["cells"]]
    except (KeyError, TypeError):
        return None
