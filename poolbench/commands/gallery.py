# SPDX-License-Identifier: BSL-1.0
"""poolbench gallery: the machines that were met, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolbench.commands.pages import deliver, measured_here
from poolbench.options import complain, fail, say
from poolbench.plan import description
from poolbench.results import find
from poolbench.results.read import BadResults, Results, read_measured

EPILOG = """\b
Examples:
  poolbench gallery                              the newest results of each machine among your runs
  poolbench gallery amd.jsonl intel.jsonl --output gallery.html --open
\b
Times of two machines do not compare; what compares is what pooling gains on each. The page's path is printed.
"""


def newest_of_each_machine() -> list[Results]:
    """The newest first."""
    found: dict[tuple, Results] = {}
    for results in measured_here():
        found.setdefault(results.machine(), results)
    return list(found.values())


def gallery(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="RESULTS", help="Default: the newest of each machine.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page. Default: gallery.html beside the results.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Compare machines: what pooling gains on each.

    One page, work by work.
    """
    from poolbench.report import gallery as drawn

    try:
        machines = [read_measured(path) for path in files] if files else newest_of_each_machine()
    except BadResults as error:
        raise fail(str(error)) from error
    if not machines:
        raise fail(f"there are no results in {find.DIRECTORY} yet: poolbench run makes some")
    for each in machines:
        if warning := each.warning():
            complain(warning)
        say(each.origin())
    deliver(output or machines[0].path.with_name("gallery.html"), drawn.render(machines, description.load()), show)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(gallery)
