# SPDX-License-Identifier: BSL-1.0
"""The page: one file, complete in itself, that works without a network and without scripts."""

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from poolbench import tables
from poolbench.analysis import claims, estimate, headlines, rows
from poolbench.errors import Failed
from poolbench.plan.description import TIME, Description
from poolbench.report import chart, findings, published
from poolbench.results import find
from poolbench.results.read import Results
from poolbench.system import mallocs
from poolbench.tables import Sheet

MORE = ("virtual machine", "caches", "huge pages", "governor")  # what else is told of a machine
TEMPLATES = Path(__file__).resolve().parent / "templates"


Parts = list[tuple[chart.Chart | None, Sheet]]  # of an experiment: a chart and a table for all that may be compared


def _sections(groups: list[rows.Group]) -> list[tuple[Description, Parts]]:
    found: dict[str, tuple[Description, Parts]] = {}
    for group in groups:
        _, parts = found.setdefault(group.description.name, (group.description, []))
        parts.append((chart.of_group(group), tables.group_sheet(group)))
    return list(found.values())


def _summary(found: list[headlines.Row], busy: bool) -> dict:
    """The same as in a terminal, grouped by use."""
    sheet = tables.summary_sheet(found, busy)
    uses = headlines.by_use(found).items()
    groups = [(use, [sheet.rows[found.index(row)] for row in members]) for use, members in uses]
    return {"title": sheet.title, "columns": sheet.columns, "groups": groups, "note": sheet.note}


def _losses_sheet(losses: list[findings.Loss]) -> Sheet:
    lines = [
        [loss.where, loss.contender, tables.number(loss.theirs), tables.number(loss.ours), tables.times(loss)]
        for loss in losses
    ]
    columns = ["work", "contender", "its ns/op", "pooled's ns/op", "pooled ÷ it (95% interval)"]
    return Sheet("Where something else behind a smart pointer is faster", columns, lines, words={"work", "contender"})


def in_words(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return "; ".join(map(str, value))
        case dict():
            return "; ".join(f"{name}: {each}" for name, each in value.items())
    return str(value)


def _machine_sheet(results: Results) -> Sheet:
    session = results.session
    machine = session.get("machine", {})

    def joined(record: dict, *names: str) -> str:
        return ", ".join(in_words(record.get(name, "unknown")) for name in names)

    lines = [
        ["measured", f"{joined(session, 'time')}, profile {joined(session, 'profile')}"],
        ["commit", joined(session, "commit")],
        ["machine", f"{joined(machine, 'cpu')}, {joined(machine, 'cores')} cores, {joined(machine, 'memory_mib')} MiB"],
        ["system", joined(machine, "kernel", "libc")],
        *([name, joined(machine, name.replace(" ", "_"))] for name in MORE),
    ]
    for program in session.get("programs", []):
        lines.append([joined(program, "toolchain", "optimisation"), joined(program, "compiler", "stdlib", "flags")])
    loaded = [sample["malloc"] for _, sample in results.samples if isinstance(sample.get("malloc"), dict)]
    for name, what in sorted({(joined(m, "name"), joined(m, "version", "path", "sha256")) for m in loaded}):
        lines.append([f"malloc {name}", what])
    lines += [["note", str(note)] for note in session.get("notes", [])]
    return Sheet("The machine and what was measured with", ["", "recorded"], lines, words={"", "recorded"})


def _failures(results: Results) -> list[dict]:
    return [
        {"cell": str(cell), "reason": failure.get("reason", "failed"),
         "output": "\n".join(str(failure.get(s, "")) for s in ("stdout", "stderr")).strip()}
        for cell, failure in results.failed_cells().items()
    ]  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """What results say, beside their figures."""

    estimated: estimate.Rows
    headlines: list[headlines.Row]
    timed: list[headlines.Row]  # about an object's time: no picture or sentence mixes in percentiles or quotients
    claims: list[claims.Claim]
    change: str
    busy: bool

    def sentences(self) -> list[str]:
        return findings.sentences(self.timed, self.claims, self.change, self.busy)


def judge(results: Results, descriptions: dict[str, Description]) -> Judged:
    estimated = estimate.estimates(results)
    busy = results.is_busy()
    found = headlines.rows(estimated, descriptions, results.installed, busy)
    judged = list(claims.judge(estimated, installed=results.installed))
    changed = findings.change(find.before(results), results, descriptions)
    timed = [row for row in found if row.headline.measure == TIME]
    return Judged(estimated, found, timed, judged, changed, busy)


def render(results: Results, descriptions: dict[str, Description], judged: Judged | None = None) -> str:
    judged = judged or judge(results, descriptions)
    groups = rows.groups(results, descriptions, judged.estimated)
    failures = _failures(results)
    lost = findings.losses(groups, estimate.collect(results), judged.headlines)
    ended = f"{len(failures)} of them failed (see Failures)." if failures else "none failed."
    run = f"{len(results.samples):,} processes were run for {len(results.cells()):,} cells; {ended}"
    absent = [name for name in mallocs.NAMES if name not in results.installed]
    rivals = [f"Not there, and so no rival here: {', '.join(absent)}."] if results.installed and absent else []
    words = [judged.sentences()[-1], run, *rivals]
    timed = judged.timed
    return template("page.html.j2").render(
        results=results,
        busy=results.is_busy() or not results.finished,
        answers=[*findings.first(timed, judged.busy), *findings.answers(timed, lost, judged.busy)],
        words=words,
        published=published.comparisons(judged.estimated),
        picture=chart.picture(timed) if any(row.over_best for row in timed) else None,
        summary=_summary(judged.headlines, judged.busy) if judged.headlines else None,
        losses=_losses_sheet(lost) if judged.headlines and not judged.busy else None,
        sections=_sections(groups),
        claims=judged.claims,
        last=findings.in_one(timed, judged.change, judged.busy),
        tables=tables,
        failures=failures,
        machine=_machine_sheet(results),
        css=(TEMPLATES / "page.css").read_text(),
    )


def _whole(text: str) -> Markup:
    """With each interval in brackets unbroken: a browser would break a line behind its dots."""
    return Markup(re.sub(r"\([^()]*…[^()]*\)", r'<span class="whole">\g<0></span>', str(escape(text))))


@cache
def template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["whole"] = _whole
    environment.globals["nothing"] = ("", tables.NONE)
    return environment.get_template(name)


def write(path: Path, text: str) -> None:
    """Whole or not at all: a full disk leaves the page of last time."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from error
