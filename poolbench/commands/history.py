# SPDX-License-Identifier: BSL-1.0
"""poolbench history: what pooling gained, commit by commit."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from poolbench.commands.pages import deliver, measured_here
from poolbench.options import WorkloadOption, complain, fail, origin, selection_of, tell
from poolbench.plan import description
from poolbench.plan.selection import SelectionError
from poolbench.results import find
from poolbench.results.read import BadResults, Results, read_measured
from poolbench.system import hardware

EPILOG = """\b
Examples:
  poolbench history                              of this machine: a table, and the path of a page with charts
  poolbench history -w create_drop,e5 --over best
  poolbench history a.jsonl b.jsonl c.jsonl --output history.html --open
"""


class Over(enum.StrEnum):
    glibc = "glibc"
    best = "best"


def of_this_machine() -> list[Results]:
    """The oldest first. When this machine has none, those of the machine that was measured last."""
    found = list(measured_here())
    here = Results(Path(), sessions=[{"machine": hardware.describe()}]).machine()
    known = [each.machine() for each in found]
    wanted = here if here in known or not known else known[0]
    return [each for each in reversed(found) if each.machine() == wanted]


def history(
    files: Annotated[list[Path] | None, typer.Argument(metavar="RESULTS", help="Default: all of this machine.")] = None,
    workload: WorkloadOption = None,
    over: Annotated[Over, typer.Option(help="glibc's malloc, or the best malloc measured.")] = Over.glibc,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page. Default: history.html beside the results.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Show how the gain changed from commit to commit.

    A table, and a page with charts.
    """
    from poolbench import tables
    from poolbench.report import gallery
    from poolbench.report import history as drawn

    try:
        chosen = selection_of(workload, None, None, None, None)
        results = sorted(map(read_measured, files), key=lambda each: each.measured_on()) if files else of_this_machine()
        if not results:
            raise fail(f"there are no results in {find.DIRECTORY} yet: poolbench run makes some")
        chosen.check("workload", [cell.workload for each in results for cell in each.cells()])
    except (BadResults, SelectionError) as error:
        raise fail(str(error)) from error
    kept = [each.only({cell for cell in each.cells() if chosen.takes("workload", cell.workload)}) for each in results]
    found = drawn.files_of(kept, description.load())
    title = gallery.TITLES[over]
    for each in results:
        if warning := each.warning():
            complain(warning)
        tell(origin(each))
    typer.echo("")
    tables.print_text(drawn.sheet(found, str(over), title))
    deliver(
        output or results[-1].path.with_name("history.html"),
        drawn.render(found, results[-1].machine_name(), title, str(over)),
        show,
    )


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(history)
