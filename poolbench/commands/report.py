# SPDX-License-Identifier: BSL-1.0
"""poolbench report: the results as a page."""

import webbrowser
from pathlib import Path

import typer

from poolbench.options import ResultsArgument, option, origin, results_of, say
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
    output: option(Path | None, "The page. Default: beside the results.", "--output", "-o") = None,
    show: option(bool, "Show it in the browser.", "--open") = False,
) -> None:
    """Draw the report: one HTML page that works offline."""
    found = results_of(results)
    say(origin(found))
    path = make(found, output)
    typer.echo(str(path))
    if show and not webbrowser.open(path.resolve().as_uri()):
        say("no browser could be opened")
