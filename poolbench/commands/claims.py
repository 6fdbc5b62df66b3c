# SPDX-License-Identifier: BSL-1.0
"""poolbench claims: which published claims hold on this machine."""

import dataclasses
import enum
import json

import typer

from poolbench.options import ResultsArgument, begin, complain, option, origin, results_of

EPILOG = """\b
Examples:
  poolbench claims
  poolbench claims results.jsonl --format json | jq '.[] | select(.verdict != "holds")'
\b
Exit status: 0; 1 when one of pooled's own promises does not hold (undecided ones, and the claims of others, do not
count); 2 bad input.
"""


Format = enum.StrEnum("Format", "text json")


def claims(
    results: ResultsArgument = None,
    form: option(Format, "The output format.", "--format", "-f") = Format.text,
) -> None:
    """Judge the published claims, and our own promises.

    Each is shown with the figures and their 95% intervals: "holds" when the whole interval keeps the bounds, "does not
    hold" when all of it lies outside, else "undecided".
    """
    from poolbench import tables
    from poolbench.analysis import claims as judged
    from poolbench.analysis.estimate import estimates

    read = results_of(results)
    found = list(judged.judge(estimates(read), installed=read.installed))
    begin(origin(read), form is Format.json)
    if form is Format.json:
        typer.echo(json.dumps([dataclasses.asdict(claim) for claim in found], indent=1))
    else:
        tables.print_claims(found)
    if broken := sum(claim.by == judged.OURS_BY and claim.verdict is judged.Verdict.fails for claim in found):
        complain(f"{broken} of pooled's own promises do not hold")
        raise typer.Exit(1)
