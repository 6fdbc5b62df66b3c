# SPDX-License-Identifier: BSL-1.0
"""poolbench report: the results as a page."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from poolbench.options import ResultsArgument, origin, results_of, say
from poolbench.plan import description
from poolbench.results.read import Results

EPILOG = """\b
Examples:
  poolbench report                          the newest results, beside them
  poolbench report results.jsonl --open
  poolbench report results.jsonl --output report.html
\b
The page is one file: it needs no network, and works without scripts. Its path is printed.
"""


def make(results: Results, output: Path | None, judged=None) -> Path:
    """Writes the page, beside the results unless told otherwise."""
    from poolbench.report import page

    descriptions = description.load()
    path = output or results.path.with_name(results.path.name.partition(".")[0] + ".html")
    page.write(path, page.render(results, descriptions, judged))
    return path


def report(
    results: ResultsArgument = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page. Default: beside the results.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Draw the report: one HTML page that works offline."""
    found = results_of(results)
    say(origin(found))
    path = make(found, output)
    typer.echo(str(path))
    if show and not webbrowser.open(path.resolve().as_uri()):
        say("no browser could be opened")
