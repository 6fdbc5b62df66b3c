# SPDX-License-Identifier: BSL-1.0
"""poolbench table: the figures of a results file."""

import enum
import json

import typer

from poolbench import options
from poolbench.errors import BadInput
from poolbench.options import option
from poolbench.plan import description
from poolbench.plan.selection import Selection

EPILOG = """\b
Examples:
  poolbench table                          the published tables beside ours, then every cell, an experiment a table
  poolbench table --summary                one line a work
  poolbench table -w e1 --format markdown
"""


Format = enum.StrEnum("Format", "text markdown json")


def table(
    results: options.ResultsArgument = None,
    form: option(Format, "The output format.", "--format", "-f") = Format.text,
    summary: option(bool, "One line per workload (text, markdown).", "--summary") = False,
    workload: options.WorkloadOption = None,
    variant: options.VariantOption = None,
    contender: options.ContenderOption = None,
    malloc: options.MallocOption = None,
    toolchain: options.ToolchainOption = None,
) -> None:
    """Print the figures: medians, intervals and ratios."""
    from poolbench import tables
    from poolbench.analysis import estimate, headlines, rows
    from poolbench.report.published import comparisons

    if summary and form is Format.json:
        raise BadInput("--summary is for people: text or markdown")
    found = options.results_of(results)
    chosen = Selection.of(workload=workload, variant=variant, contender=contender, malloc=malloc, toolchain=toolchain)
    kept = set(chosen.filter(found.cells()))
    descriptions = description.load()
    if summary:
        found = found.only(kept)
        busy = found.is_busy()
        rows_found = headlines.rows(estimate.estimates(found), descriptions, found.installed, busy)
        sheets = [tables.summary_sheet(rows_found, busy)]
    else:
        # All cells first: a ratio may be to one that is not shown.
        groups = [shown for group in rows.groups(found, descriptions) if (shown := group.only(kept)).rows]
        works = {cell.workload for cell in kept}
        published = [each.sheet for each in comparisons(estimate.estimates(found), works)]
        sheets = published + [tables.group_sheet(group) for group in groups]
    options.begin(options.origin(found), form is Format.json)
    if form is Format.json:
        typer.echo(json.dumps(tables.records(groups), indent=1))
        return
    for sheet in sheets:
        tables.print_text(sheet) if form is Format.text else typer.echo(tables.markdown(sheet))
