# SPDX-License-Identifier: BSL-1.0
"""poolbench compare: is the second slower than the first?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from poolbench.commands import two_programs
from poolbench.measure.run_plan import SEED
from poolbench.measure.stopping import Rule
from poolbench.options import (
    INTERRUPTED,
    ContenderOption,
    MallocOption,
    SeedOption,
    VariantOption,
    WorkloadOption,
    fail,
    origin,
    results_of,
    say,
    seconds,
    selection_of,
    share,
    tell,
)
from poolbench.plan import description, program
from poolbench.plan.selection import SelectionError
from poolbench.results import find
from poolbench.results.read import BadResults, Results
from poolbench.results.store import CannotWrite, Locked, NotResults
from poolbench.system import build

EPILOG = """\b
Examples:
  poolbench compare before.jsonl after.jsonl
  poolbench compare before.jsonl after.jsonl --fail-above 10%
  poolbench compare main                           the newest results with what run --save-baseline main kept
  poolbench compare a.jsonl b.jsonl --json | jq '.cells[] | select(.significant)'
  poolbench compare --bin old/pooled-bench --bin new/pooled-bench -w create_drop,e5
  poolbench compare --bin ../main --bin . -w create_drop,e5        two checkouts, built with the first toolchain
  poolbench compare --bin old --bin new -w e7 --samples 20 --precision 1%     what is undecided otherwise
\b
Only contenders of this library are judged, relative to the others: those cannot change, so what they did between the
two sessions is the machine's. The sure experiment is --bin: both executables in one run, a process of each in turn. It
builds and measures only our cells of what is named, with six quick controls a workload, and first says how long that
takes: minutes for one or two workloads.
\b
A regression is a significant slowdown of ours by more than --fail-above.
Exit status: 0 none; 1 a regression, or a cell that failed in the second and not in the first; 2 bad input, or nothing
can be judged (too few controls); 130 interrupted.
"""


MOST = 30  # runs of a cell and side, whatever the budget


def _bounded(value: float) -> float | None:
    """JSON knows no infinity."""
    return value if math.isfinite(value) else None


def _record(each, margin: float) -> dict:
    found = {"what": each.what, "ratio": each.ratio, "low": each.low, "high": _bounded(each.high)}
    found |= {"p_corrected": each.p, "significant": each.significant, "verdict": str(each.verdict(margin))}
    found |= {"cells": each.cells}
    return found | ({"before": each.before, "after": each.after, **each.cell.to_record()} if each.cell else {})


# --- the command


def compare(
    first: Annotated[
        str | None, typer.Argument(metavar="FIRST", help="The results file, or baseline, to compare with.")
    ] = None,
    second: Annotated[
        str | None,
        typer.Argument(metavar="SECOND", help="The one that may be slower. Default: the newest of your runs."),
    ] = None,
    bins: Annotated[
        list[Path] | None,
        typer.Option("--bin", metavar="PATH", help="Given twice: the old and the new pooled-bench or checkout."),
    ] = None,
    workload: WorkloadOption = None,
    variant: VariantOption = None,
    contender: ContenderOption = None,
    malloc: MallocOption = None,
    samples: Annotated[
        int, typer.Option(metavar="N", min=2, max=1000, help="With --bin: least process runs of each cell and side.")
    ] = 7,
    precision: Annotated[
        float,
        typer.Option(parser=share, metavar="SHARE", help="With --bin: more runs until the interval is within ±SHARE."),
    ] = "2.5%",
    budget: Annotated[
        float,
        typer.Option(parser=seconds, metavar="TIME", help="With --bin: time, beyond which no more runs are added."),
    ] = "3m",
    timeout: Annotated[
        float, typer.Option(parser=seconds, metavar="TIME", help="With --bin: time limit of a process run.")
    ] = "60s",
    output: Annotated[
        Path | None, typer.Option(help="With --bin: the results file. Default: beside your other runs.")
    ] = None,
    seed: SeedOption = SEED,
    fail_above: Annotated[
        float, typer.Option(parser=share, metavar="SHARE", help="Fail if a slowdown exceeds this: 5% or 0.05.")
    ] = "5%",
    every: Annotated[bool, typer.Option("--all", help="List every cell, not only those that differ.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Compare two results files, or two executables in one run.

    Each of our cells, and groups of them: by how much it changed beyond what the controls did, with the interval and
    the p-value after Holm's correction.
    """
    from poolbench.analysis.compare import compare as compared

    chosen = selection_of(workload, variant, contender, malloc, None)
    if bool(bins) == bool(first):
        raise fail("two results files are compared, or two executables with --bin OLD --bin NEW")
    if bins and len(bins) != 2:
        raise fail(f"--bin is given twice, first the old, then the new: not {len(bins)} times")
    try:
        if bins:
            rule = Rule(samples, max(samples, MOST), precision, budget)
            sides = two_programs.of_sides(
                two_programs.measured(two_programs.Asked(bins, chosen, rule, timeout, output, seed))
            )
        else:
            sides = [results_of(find.named(first)), results_of(find.named(second) if second else None)]
            if chosen:
                sides = [side.only(set(chosen.filter(side.cells()))) for side in sides]
    except (SelectionError, BadResults, Locked, NotResults, program.ProgramError) as error:
        raise fail(str(error)) from error
    except (CannotWrite, build.BuildFailed) as error:
        raise fail(str(error), 1) from error
    except KeyboardInterrupt:
        say(f"interrupted; give the same --output to continue: {output}" if output else "interrupted")
        raise typer.Exit(INTERRUPTED) from None
    found = compared(*sides, description.load(), same_session=bool(bins))
    if found is None:
        raise fail("the two have no cell in common")
    _tell(found, sides, bins, fail_above, every, as_json)
    if found.regressions(fail_above) or found.failed:
        raise typer.Exit(1)
    if not found.judged:
        raise typer.Exit(2)


def _tell(found, sides: list[Results], bins: list[Path] | None, fail_above: float, every: bool, as_json: bool) -> None:
    from poolbench import tables
    from poolbench.analysis.compare import REPEATS_WITHIN

    heads = [origin(side) for side in (sides[:1] if bins else sides)]
    if not bins and sides[0].session.get("machine") != sides[1].session.get("machine"):
        heads.append("The files come from different machines: what differs may be the machines.")
    if as_json:
        for head in heads:
            say(head)
        summary = {
            "origin": heads,
            "fail_above": fail_above,
            "judged": found.judged,
            "interleaved": bool(bins),
            "regressions": [each.what for each in found.regressions(fail_above)],
            "failed": [{**cell.to_record(), "reason": reason} for cell, reason in found.failed],
            "controls": found.controls,
            "session_ratio": math.exp(found.shift.value),
            "ours": {str(verdict): count for verdict, count in found.counts(fail_above).items()},
            "repeated_within_10_percent": {str(verdict): count for verdict, count in found.repeated.items()},
            "only_in_first": found.only_first,
            "only_in_second": found.only_second,
            "groups": [_record(each, fail_above) for each in found.groups],
            "cells": [_record(each, fail_above) for each in found.cells],
        }
        typer.echo(json.dumps(summary, indent=1))
        return
    for head in heads:
        tell(head)
    typer.echo("")
    shown = [each for each in found.cells if every or each.significant]
    groups = [each for each in found.groups if every or each.significant or not each.what.startswith("workload")]
    if groups:
        tables.print_text(tables.difference_sheet("Ours together, relative to the controls", groups, fail_above))
    if shown:
        shown.sort(key=lambda each: -each.ratio)
        title = "Our cells, relative to the controls" + ("" if every else ": those that differ")
        tables.print_text(tables.difference_sheet(title, shown, fail_above))
    for cell, reason in found.failed:
        tell(f"FAILED in the second alone: {cell}: {reason}")
    tell(_in_words(found, sides, bool(bins), fail_above, REPEATS_WITHIN))


def _in_words(found, sides: list[Results], interleaved: bool, fail_above: float, repeats: float) -> str:
    from poolbench.analysis.compare import Verdict

    low, high = (math.exp(min(end, 50.0)) - 1 for end in found.shift.interval())
    moved = math.exp(found.shift.value) - 1
    lines = []
    if found.controls:
        where = "executable." if interleaved else "session; that is taken out of all figures above."
        lines.append(
            f"The {found.controls} controls (contenders that cannot change) are {moved:+.1%} ({low:+.1%}…{high:+.1%}) "
            f"in the second {where}"
        )
    every = sum(found.repeated.values())
    if every and not interleaved:
        lines.append(
            f"Plain times of all {every} cells: {found.repeated[Verdict.equal]} shown equal within {repeats:.0%}, "
            f"{found.repeated[Verdict.differs]} differ, {found.repeated[Verdict.undecided]} undecided."
        )
    if found.cells:
        counts = found.counts(fail_above)
        lines.append(
            f"Ours, {len(found.cells)} cells: {counts[Verdict.equal]} shown equal within {fail_above:.0%}, "
            f"{counts[Verdict.differs]} differ, {counts[Verdict.undecided]} undecided."
        )
        widths = sorted((each.high / each.low) ** 0.5 - 1 for each in found.cells)
        if interleaved and math.isfinite(widths[-1]):
            lines.append(
                f"Precision: half of their intervals are within ±{widths[len(widths) // 2]:.1%}, all within "
                f"±{widths[-1]:.1%}; {found.fewest_samples} runs a side at least."
            )
        if counts[Verdict.undecided] and found.judged:
            wanted = found.runs_wanted(fail_above)
            lines.append(
                f"What decides: --samples {min(wanted, 1000)}; {found.fewest_samples} runs a side are too few."
                if interleaved
                else "What decides: poolbench compare --bin OLD --bin NEW, which measures both in one session."
            )
    if found.only_first or found.only_second:
        lines.append(f"Not compared: {found.only_first} cells of the first alone, {found.only_second} of the second.")
    for side, name in zip(sides, ("first", "second"), strict=True):
        if not interleaved and not side.finished:
            lines.append(f"The {name} file is UNFINISHED: its run was stopped.")
    if found.failed_in_both:
        lines.append(f"{found.failed_in_both} cells failed in both.")
    if found.failed:
        lines.append(f"FAILED: {len(found.failed)} cells failed in the second and not in the first.")
    regressions = found.regressions(fail_above)
    if not found.judged:
        lines.append(
            "NOT JUDGED: the two share too few controls to tell a change of ours from one of the machine, or nothing "
            "of ours. What decides: poolbench compare --bin OLD --bin NEW"
        )
    elif regressions:
        lines.append(f"REGRESSION: {len(regressions)} of cells and groups are slower by more than {fail_above:.0%}.")
    else:
        lines.append(f"No regression by more than {fail_above:.0%} is shown.")
    return "\n".join(lines)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(compare)
