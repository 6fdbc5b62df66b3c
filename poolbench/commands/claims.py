# SPDX-License-Identifier: BSL-1.0
"""poolbench claims: which published claims hold on this machine."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Annotated

import typer

from poolbench.options import ResultsArgument, results_of

EPILOG = """\b
Examples:
  poolbench claims
  poolbench claims --format markdown
  poolbench claims results.jsonl --format json | jq '.[] | select(.verdict != "holds here")'
"""


class Format(enum.StrEnum):
    text = "text"
    markdown = "markdown"
    json = "json"


def claims(
    results: ResultsArgument = None,
    form: Annotated[Format, typer.Option("--format", "-f", help="For people or for programs.")] = Format.text,
) -> None:
    """Judge the published claims, and our own: do they hold here?

    Each is shown with the figures and their 95% intervals: "holds here" when the whole interval keeps the bounds, "does
    not hold here" when all of it lies outside, else "not shown".
    """
    from poolbench import tables
    from poolbench.analysis import claims as judged
    from poolbench.analysis.estimate import estimates

    found = list(judged.judge(estimates(results_of(results))))
    match form:
        case Format.text:
            tables.print_text(tables.claims_sheet(found))
        case Format.markdown:
            typer.echo(tables.markdown(tables.claims_sheet(found)))
        case Format.json:
            typer.echo(json.dumps([dataclasses.asdict(claim) for claim in found], indent=1))


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(claims)
