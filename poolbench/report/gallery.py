# SPDX-License-Identifier: BSL-1.0
"""The gallery: machines as columns, works as rows, and in each cell what pooling gains there. Times are not shown:
those of two machines, or of two hours, do not compare."""

from __future__ import annotations

from dataclasses import dataclass

from poolbench import tables
from poolbench.analysis import claims, estimate, headlines
from poolbench.analysis.claims import OURS_BY
from poolbench.analysis.headlines import Lead
from poolbench.options import profile_of
from poolbench.plan.description import Description
from poolbench.report import across_files, findings
from poolbench.report.drawn import Drawn, draw
from poolbench.report.page import TEMPLATES, template
from poolbench.results.read import Results

KINDS = ("glibc", "best")
TITLES = {
    "glibc": "glibc's malloc ÷ pooled: how many times as fast",
    "best": "the best malloc ÷ pooled: how many times as fast",
}


@dataclass(frozen=True)
class Machine:
    name: str
    origin: str
    trusted: bool  # quiet and finished
    rows: dict[str, headlines.Row]  # by work
    promises: str

    def score(self, kind: str) -> str:
        return findings.score([lead for row in self.rows.values() if (lead := lead_of(row, kind))])


def machine_of(results: Results, descriptions: dict[str, Description], name: str) -> Machine:
    frame = estimate.estimates(results)
    found = headlines.times(headlines.rows(frame, descriptions, results.installed))
    ours = [
        claim
        for claim in claims.judge(frame, profile=profile_of(results), installed=results.installed)
        if claim.by == OURS_BY
    ]
    promises = claims.counted(ours)
    trusted = "BUSY" not in results.busy() and results.finished
    return Machine(name, results.origin(), trusted, {row.headline.work: row for row in found}, promises)


def _names(results: list[Results]) -> list[str]:
    """That of the machine, with the date where two files are of one."""
    plain = [each.machine_name() for each in results]
    return [
        name if plain.count(name) == 1 else f"{name}, {each.measured_on()}"
        for name, each in zip(plain, results, strict=True)
    ]


def lead_of(row: headlines.Row | None, kind: str) -> Lead | None:
    return (row.over_glibc if kind == "glibc" else row.over_best) if row else None


def _chart(machines: list[Machine], works: list[str], kind: str) -> Drawn | None:
    data = [
        {"work": work, "machine": each.name, "ratio": lead.ratio, "low": lead.low, "high": lead.high,
         "text": tables.lead_text(lead)}
        for work in works for each in machines if (lead := lead_of(each.rows.get(work), kind))
    ]  # fmt: skip
    if not data:
        return None
    words = f"{TITLES[kind]}. " + " ".join(f"{row['work']}, {row['machine']}: {row['text']}." for row in data)
    return draw(f"gallery-{kind}", TITLES[kind], words, across_files.machines(data, works, [m.name for m in machines]))


def render(results: list[Results], descriptions: dict[str, Description]) -> str:
    machines = [machine_of(each, descriptions, name) for each, name in zip(results, _names(results), strict=True)]
    works = list(dict.fromkeys(work for each in machines for work in each.rows))
    sheets = [
        tables.Sheet(
            TITLES[kind], ["work", *(each.name for each in machines)],
            [[work, *(tables.lead_text(lead_of(each.rows.get(work), kind)) for each in machines)] for work in works],
            words={"work"},
        )
        for kind in KINDS
    ]  # fmt: skip
    different = len({each.machine_name() for each in results})  # a machine may have several files
    heading = f"What pooling gains on {different} machine{'s' if different != 1 else ''}"
    intro = "Times of two machines do not compare, so none are shown."
    drawn = [chart for kind in KINDS if (chart := _chart(machines, works, kind))]
    return comparison("machines compared", heading, intro, machines, drawn, sheets if works else [])


def comparison(
    brand: str, heading: str, intro: str, machines: list[Machine], drawn: list[Drawn], sheets: list[tables.Sheet]
) -> str:
    """A page of several results files."""
    return template("comparison.html.j2").render(
        brand=brand, heading=heading, intro=intro, machines=machines, drawn=drawn, sheets=sheets,
        css=(TEMPLATES / "page.css").read_text(),
    )  # fmt: skip
