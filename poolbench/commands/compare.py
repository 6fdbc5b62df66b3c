# SPDX-License-Identifier: BSL-1.0
"""poolbench compare: is the second executable slower than the first? Both are measured in one run, a process of each in
turn; or they were measured before, and two results files are compared."""

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path

import typer

from poolbench import options
from poolbench.errors import BadInput
from poolbench.measure.progress import Progress, duration
from poolbench.measure.run_plan import SEED, RunPlan, carry_out
from poolbench.measure.sample import take
from poolbench.measure.stopping import Rule
from poolbench.options import argument, option
from poolbench.plan import description, matrix, program
from poolbench.plan.cell import Cell
from poolbench.plan.description import is_ours
from poolbench.plan.selection import Selection
from poolbench.results import find
from poolbench.results.read import Results
from poolbench.results.store import check_writable
from poolbench.system import build, mallocs

EPILOG = """\b
Examples:
  poolbench compare --bin old/pooled-bench --bin new/pooled-bench -w create_drop,e5
  poolbench compare --bin ../main --bin . -w create_drop,e5        two checkouts, built with the first toolchain
  poolbench compare --bin old --bin new -w e7 --samples 20 --precision 1%     what is undecided otherwise
  poolbench compare --bin old --bin new --json | jq '.cells[] | select(.verdict == "slower")'
  poolbench compare before.jsonl after.jsonl.xz       what was measured before: quick, and less sure
\b
Only contenders of this library are measured, unless others are named: those show what the machine does, and the places
of code in memory. The command first says how long it takes: minutes for one or two workloads.
\b
A regression is a slowdown by more than --fail-above, with an interval that excludes no change. Undecided is a cell
whose interval shows neither a change nor that there is none above --fail-above.
Exit status: 0 all is decided, and there is no regression; 1 a regression, or a cell that failed in the second alone;
2 bad input; 3 no regression, but cells are undecided; 130 interrupted.
"""

OLD, NEW = "old", "new"  # stand for the toolchain in the cells of two executables
SIDES = (OLD, NEW)
PROFILE = "compare"
UNDECIDED = 3  # exit status
OURS = ("pooled.*", *sorted(description.OURS_TOO))  # to compile; a regular expression
MOST = 30  # runs of a cell and side, whatever the budget
MOST_TO_DECIDE = 300  # of those that have to be decided
LEAST_SECONDS = 0.2  # of a run: a shorter one is mostly noise, so its scale is raised
MOST_LONGER = 10.0  # times the profile's scale


def _executable(side: str, path: Path, chosen: Selection) -> program.Program:
    """The one named, or that of a checkout, built now."""
    if path.is_dir():
        if not (path / "bench" / "CMakeLists.txt").is_file():
            raise BadInput(f"{path} is no checkout of pooled: it has no bench/CMakeLists.txt")
        probed = build.first_working()
        options.say(f"{side}: {path}")
        workloads = [name for name in description.load() if chosen.takes("workload", name)] if chosen.workload else []
        path = build.only(probed, workloads, [*OURS, *chosen.contender], options.say, path.resolve())
    return program.load(side, path.resolve())


def _common(chosen: Selection, old: list[Cell], new: list[Cell], alone: str, none: str) -> list[Cell]:
    """The cells chosen that both have: of our contenders, unless others are named. `alone` and `none`: what is said of
    others, and of two without such a cell."""
    if left := len(set(old) ^ set(new)):
        options.say(f"{left} cells {alone}: left out")
    both = [cell for cell in chosen.filter(old) if cell in set(new)]
    if cells := [cell for cell in both if chosen.contender or is_ours(cell.contender)]:
        return cells
    raise BadInput(none)


def _measurable(sides: list[program.Program], chosen: Selection, libraries: list, everything: dict) -> list[Cell]:
    """Of the quick profile, on glibc's malloc unless others are asked for; as cells of the old one."""
    names = [malloc.name for malloc in libraries]
    chosen.check("malloc", names)
    names = names if chosen.malloc else names[:1]
    old, new = (
        [dataclasses.replace(cell, toolchain=OLD) for cell in matrix.cells_of("quick", [side], names, everything)]
        for side in sides
    )
    none = "the two executables have no such cell in common (Release builds are wanted)"
    return _common(chosen, old, new, "can be measured with one of the two alone", none)


def _long_enough(cells: list[Cell], bench: program.Program, libraries: list, limit: float, rule: Rule) -> list[Cell]:
    """At scales at which a run takes LEAST_SECONDS, if it is shorter; says what the whole will take."""
    options.say(f"a first run of {len(cells)} cells, not counted, shows how long they take")
    by_name = {malloc.name: malloc for malloc in libraries}
    shown, longer, round_of_both = Progress(options.progress_stream()), [], 0.0
    for number, cell in enumerate(cells):
        shown.show(f"[trying: {number} of {len(cells)}] {cell}")
        took = take(cell, bench, by_name[cell.malloc], limit).seconds or limit
        factor = max(1.0, min(MOST_LONGER, LEAST_SECONDS / took, 1 / cell.scale))
        scale = float(f"{cell.scale * factor:.2g}") if factor > 1 else cell.scale
        longer.append(dataclasses.replace(cell, scale=scale))
        round_of_both += 2 * took * factor
    least = rule.least * round_of_both
    longest = max(least, min(rule.most * round_of_both, rule.budget))
    more = f", more until its interval is within ±{rule.precision:.1%}: up to {duration(longest)}"
    more = more if longest > least * 1.1 else ""
    few = "; fewer: --workload, --contender, --samples" if least > rule.budget else ""
    options.say(f"cells: {len(cells)}; {rule.least} pairs of runs of each take about {duration(least)}{more}{few}")
    return longer


def _measured(
    paths: list[Path], chosen: Selection, rule: Rule, limit: float, output: Path | None, seed: int
) -> Results:
    everything = description.load()
    chosen.check("workload", everything)  # an error before a build of minutes
    if output is not None and output.is_dir():
        output = find.new_path(PROFILE, output)
    sides = [_executable(side, path, chosen) for side, path in zip(SIDES, paths, strict=True)]
    if sides[0].sha256 == sides[1].sha256:
        options.say(
            "both are the same executable (same SHA-256): what follows is what this machine takes for a difference"
        )
    there = find.continued(output, sides) if output else None
    if output:
        check_writable(output)
    libraries, _ = mallocs.find()
    try:  # those of the run that is continued: a new choice would differ
        cells = [Cell.from_record(record) for record in there.session["selection"]["cells"]]
    except (AttributeError, KeyError, TypeError):
        cells = _long_enough(_measurable(sides, chosen, libraries, everything), sides[0], libraries, limit, rule)
    libraries = [each for each in libraries if each.name in {cell.malloc for cell in cells}]
    selection = {**chosen.describe(), "cells": [cell.to_record() for cell in cells]}
    cells = [dataclasses.replace(cell, toolchain=side) for cell in cells for side in SIDES]
    path = output or find.new_path(PROFILE, find.DIRECTORY)
    plan = RunPlan(path, PROFILE, cells, sides, libraries, rule, limit, selection, everything, seed=seed, paired=True)
    return carry_out(plan, options.say, options.progress_stream())


def _sides(results: Results) -> list[Results]:
    """Of one run; as cells of the main toolchain, so that both have the same."""

    def of_side(side: str, found: list) -> list:
        mine = ((cell, each) for cell, each in found if cell.toolchain == side)
        return [(dataclasses.replace(cell, toolchain=description.MAIN_TOOLCHAIN), each) for cell, each in mine]

    return [
        dataclasses.replace(results, samples=of_side(side, results.samples), failures=of_side(side, results.failures))
        for side in SIDES
    ]


def _of_files(paths: list[Path], chosen: Selection) -> list[Results]:
    sides = [options.results_of(path) for path in paths]
    if sides[0].machine() != sides[1].machine():
        options.complain("the files come from DIFFERENT MACHINES: what differs may be the machines")
    for side in sides:
        if not side.finished:
            options.complain(f"{side.path.name} is UNFINISHED: its run was stopped")
    there = [side.cells() for side in sides]
    kept = _common(chosen, *there, "are in one of the two alone", "the two files have no such cell in common")
    return [side.only(set(kept)) for side in sides]


def compare(
    files: argument(list[Path] | None, "Two results files, instead of two executables.", metavar="OLD NEW") = None,
    bins: option(
        list[Path] | None, "Given twice: the old and the new pooled-bench or checkout.", "--bin", metavar="PATH"
    ) = None,
    workload: options.WorkloadOption = None,
    variant: options.VariantOption = None,
    contender: options.ContenderOption = None,
    malloc: options.MallocOption = None,
    samples: options.LeastOption = 7,
    precision: options.PrecisionOption = "2.5%",
    budget: options.BudgetOption = "3m",
    timeout: options.TimeoutOption = "60s",
    output: options.OutputOption = None,
    seed: options.SeedOption = SEED,
    fail_above: option(
        float, "Fail if a slowdown exceeds this: 5% or 0.05.", parser=options.share, metavar="SHARE"
    ) = "5%",
    require_decided: option(
        bool, "With --bin, for CI: whatever the --budget, go on until all is decided.", "--require-decided"
    ) = False,
    every: option(bool, "List every cell, not only those that differ.", "--all") = False,
    as_json: options.JsonOption = False,
) -> None:
    """Compare two executables, or two checkouts, in one run; or two results files.

    Each of our cells, and groups of them: by how much it changed, with the 95% interval.
    """
    from poolbench.analysis.compare import Verdict, judge, main_samples

    if sorted((len(files or []), len(bins or []))) != [0, 2]:
        raise BadInput("two executables are compared, --bin OLD --bin NEW, or two results files, OLD NEW")
    chosen = Selection.of(workload=workload, variant=variant, contender=contender, malloc=malloc)
    rule = Rule(samples, max(samples, MOST), precision, budget)
    if require_decided:
        rule = Rule(samples, max(samples, MOST_TO_DECIDE), min(precision, fail_above / 2), math.inf)
    again = f"interrupted; give the same --output to continue: {output}" if output else "interrupted"
    with options.when_interrupted(again):
        sides = _of_files(files, chosen) if files else _sides(_measured(bins, chosen, rule, timeout, output, seed))
    origins = [options.origin(side) for side in (sides if files else sides[:1])]
    broken = [side.failed_cells() for side in sides]
    found = [main_samples(side, description.load()) for side in sides]
    new = {cell: values for cell, values in found[1].items() if cell not in broken[1]}
    groups, cells = judge(found[0], new, paired=not files)
    failed = {cell: str(why.get("reason", "failed")) for cell, why in broken[1].items() if cell not in broken[0]}
    regressions = [each.what for each in [*groups, *cells] if each.regression(fail_above)]
    counts = Counter(str(each.verdict(fail_above)) for each in cells)
    options.begin("\n".join(origins), as_json)
    if as_json:
        told = {
            "origin": origins,
            "fail_above": fail_above,
            "regressions": regressions,
            "failed": [{**cell.to_record(), "reason": reason} for cell, reason in failed.items()],
            "groups": [_record(each, fail_above) for each in groups],
            "cells": [_record(each, fail_above) for each in cells],
        }
        typer.echo(json.dumps(told, indent=1))
    else:
        _tell(groups, cells, every, fail_above)
        for cell, reason in failed.items():
            typer.echo(f"FAILED in the second alone: {cell}: {reason}")
        more = "poolbench compare --bin OLD --bin NEW decides more" if files else "--samples, --precision: more runs"
        typer.echo(
            f"{len(cells)} cells: {counts['equal']} shown equal within {fail_above:.0%}, {counts['faster']} faster, "
            f"{counts['slower']} slower, {counts['undecided']} undecided{f' ({more})' if counts['undecided'] else ''}."
        )
        typer.echo(
            f"REGRESSION: {len(regressions)} of cells and groups are slower by more than {fail_above:.0%}."
            if regressions
            else f"No regression by more than {fail_above:.0%} is shown."
        )
    if regressions or failed:
        raise typer.Exit(1)
    if counts[Verdict.undecided]:
        raise typer.Exit(UNDECIDED)


def _record(each, margin: float) -> dict:
    """JSON knows no infinity."""
    high = each.high if each.high < 1e9 else None
    cell = each.cell and each.cell.to_record()
    return dataclasses.asdict(each) | {"verdict": str(each.verdict(margin)), "high": high, "cell": cell}


def _tell(groups: list, cells: list, every: bool, fail_above: float) -> None:
    from poolbench import tables

    for title, those in (("Together", groups), ("Cells" + ("" if every else " that differ"), cells)):
        shown = [
            each
            for each in those
            if every or each.verdict(fail_above) in ("faster", "slower") or each.what == "all of them"
        ]
        if shown:
            shown = sorted(shown, key=lambda each: -each.ratio) if those is cells else shown
            tables.print_text(tables.difference_sheet(title, shown, fail_above))
