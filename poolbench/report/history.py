# SPDX-License-Identifier: BSL-1.0
"""The history: results files of one machine in the order of their dates, and what pooling gained in each."""

from __future__ import annotations

from poolbench import tables
from poolbench.plan.description import Description
from poolbench.report import across_files
from poolbench.report.drawn import draw
from poolbench.report.gallery import Machine, comparison, lead_of, machine_of
from poolbench.results.read import Results

COMMIT_DIGITS = 9


def label(results: Results) -> str:
    """For instance "2026-11-22 19:32 b47f1e378+": the sources were changed beside that commit."""
    commit = str(results.session.get("commit", "unknown"))
    return f"{results.measured_on()[:16]} {commit[:COMMIT_DIGITS]}" + ("+" if commit.endswith("+changes") else "")


def sheet(files: list[Machine], kind: str, title: str) -> tables.Sheet:
    """What there is less of becomes the columns: a long history grows downwards, a short one fits a screen."""
    works = list(dict.fromkeys(work for each in files for work in each.rows))
    rows = [[each.name, *(tables.lead_text(lead_of(each.rows.get(work), kind)) for work in works)] for each in files]
    note = "whether a later file is behind an earlier one by more than the session's drift: poolbench compare tells"
    if len(files) < len(works):
        columns = ["work", *(each.name for each in files)]
        by_work = zip(*(row[1:] for row in rows), strict=True)
        rows = [[work, *leads] for work, leads in zip(works, by_work, strict=True)]
        return tables.Sheet(title, columns, rows, note, {"work"})
    return tables.Sheet(title, ["measured, commit", *works], rows, note, {"measured, commit"})


def files_of(results: list[Results], descriptions: dict[str, Description]) -> list[Machine]:
    return [machine_of(each, descriptions, label(each)) for each in results]


def render(files: list[Machine], machine: str, title: str, kind: str) -> str:
    drawn = []
    works = list(dict.fromkeys(work for each in files for work in each.rows))
    for number, work in enumerate(works):
        data = [
            {"at": each.name, "ratio": lead.ratio, "low": lead.low, "high": lead.high}
            for each in files if (lead := lead_of(each.rows.get(work), kind))
        ]  # fmt: skip
        if len(data) > 1:
            words = f"{work}, from the oldest to the newest: " + ", ".join(tables.number(row["ratio"]) for row in data)
            drawn.append(draw(f"history-{number}", work, words + ".", across_files.history(data)))
    intro = (
        "Sessions differ by more than their intervals: one point is no trend."
        if len(files) > 1
        else "One results file has no history yet: the next run adds to it."
    )
    heading = f"How the gain changed on {machine}"
    return comparison("history", heading, intro, files, drawn, [sheet(files, kind, title)])
