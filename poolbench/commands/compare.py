# SPDX-License-Identifier: BSL-1.0
"""poolbench compare: is the second run slower than the first?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from poolbench.options import fail, results_of, say, share
from poolbench.plan import description

EPILOG = """\b
Examples:
  poolbench compare before.jsonl after.jsonl
  poolbench compare before.jsonl after.jsonl --fail-above 10%
  poolbench compare a.jsonl b.jsonl --json | jq '.cells[] | select(.significant)'
\b
A regression is a significant slowdown by more than --fail-above. Exit status: 0 none; 1 a regression; 2 bad input.
"""
AGREEMENT = 0.10  # two runs of the same code should not differ by more than this


def _record(each) -> dict:
    found = {"what": each.what, "ratio": each.ratio, "low": each.low, "high": each.high, "p_corrected": each.p}
    found |= {"significant": each.significant, "cells": each.cells}
    return found | ({"before": each.before, "after": each.after, **each.cell.to_record()} if each.cell else {})


def compare(
    first: Annotated[Path, typer.Argument(help="The results file to compare with.")],
    second: Annotated[Path, typer.Argument(help="The results file that may be slower.")],
    fail_above: Annotated[
        float, typer.Option(parser=share, metavar="SHARE", help="A slowdown above this fails: 5% or 0.05.")
    ] = "5%",
    every: Annotated[bool, typer.Option("--all", help="List every cell, not only those that differ.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Compare two results files, cell by cell and together.

    Shows the ratio of the medians, its bootstrap interval over processes, and the p-value of the Mann-Whitney test
    after Holm's correction.
    """
    from poolbench import tables
    from poolbench.analysis.compare import compare as compared

    a, b = results_of(first), results_of(second)
    found = compared(a, b, description.load())
    if found is None:
        raise fail(f"{first} and {second} have no cell in common")
    machines = [results.session.get("machine") for results in (a, b)]
    if machines[0] != machines[1]:
        say("the files come from different machines: what differs may be the machines")
    regressions = found.regressions(fail_above)
    if as_json:
        summary = {
            "fail_above": fail_above,
            "regressions": [each.what for each in regressions],
            "agreeing_share_10_percent": found.agreeing_share(AGREEMENT),
            "only_in_first": found.only_first,
            "only_in_second": found.only_second,
            "groups": [_record(each) for each in found.groups],
            "cells": [_record(each) for each in found.cells],
        }
        typer.echo(json.dumps(summary, indent=1))
    else:
        shown = [each for each in found.cells if every or each.significant]
        groups = [each for each in found.groups if every or each.significant or not each.what.startswith("contender")]
        tables.print_text(tables.difference_sheet("Together", groups, fail_above))
        if shown:
            shown.sort(key=lambda each: -each.ratio)
            tables.print_text(tables.difference_sheet("Cells" if every else "Cells that differ", shown, fail_above))
        typer.echo(_in_words(found, regressions, fail_above))
    if regressions:
        raise typer.Exit(1)


def _in_words(found, regressions: list, fail_above: float) -> str:
    differ = sum(each.significant for each in found.cells)
    lines = [
        f"{len(found.cells)} cells in both files; {differ} differ significantly; "
        f"{found.agreeing_share(AGREEMENT):.1%} show no significant difference of more than {AGREEMENT:.0%}."
    ]
    if found.only_first or found.only_second:
        lines.append(
            f"Not compared: {found.only_first} cells of the first file alone, {found.only_second} of the second."
        )
    if found.fewest_samples < found.samples_wanted:
        lines.append(
            f"Some cells have {found.fewest_samples} runs a side. To call one of {len(found.cells)} cells different, "
            f"{found.samples_wanted} are needed (run --samples {found.samples_wanted}); fewer can only tell groups."
        )
    verdict = f"REGRESSION: {len(regressions)} of cells and groups" if regressions else "No regression"
    lines.append(f"{verdict}: slower by more than {fail_above:.0%}.")
    return "\n".join(lines)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(compare)
