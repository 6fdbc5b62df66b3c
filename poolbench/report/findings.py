# SPDX-License-Identifier: BSL-1.0
"""What was found, in words: the first thing that a reader of the page sees."""

import math
from dataclasses import dataclass

from poolbench.analysis import stats
from poolbench.analysis.claims import OURS_BY, Claim, Verdict, counted
from poolbench.analysis.headlines import OURS, Lead
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.analysis.headlines import Verdict as LeadVerdict
from poolbench.analysis.rows import Group, Row
from poolbench.plan.description import MAIN_TOOLCHAIN
from poolbench.tables import number, range_text


@dataclass(frozen=True)
class Answer:
    """One of the three that the page begins with."""

    question: str
    figure: str  # the first thing read
    said: list[str]
    kind: str  # "ahead", "behind", "undecided": its colour


@dataclass(frozen=True)
class Loss:
    """A contender that is significantly faster than ours at the same work."""

    where: str
    contender: str
    theirs: float
    ours: float
    ratio: float
    low: float
    high: float


def _against(question: str, whom: str, found: list[tuple[HeadlineRow, Lead]]) -> Answer:
    if not found:
        why = f"No work was measured both with pooled and with {whom}: nothing to compare."
        return Answer(question, "not measured", [why], "undecided")
    said = []
    of = {verdict: [pair for pair in found if pair[1].verdict is verdict] for verdict in LeadVerdict}
    for verdict, pairs in of.items():
        works = [
            f"“{row.headline.work}” {number(lead.ratio)}× ({range_text(lead.low, lead.high)})" for row, lead in pairs
        ]
        said += [f"{str(verdict).capitalize()}: {', '.join(works)}."] if works else []
    leads = [lead.ratio for _, lead in of[LeadVerdict.ahead]]
    if len(leads) > 1:
        said.insert(0, f"From {number(min(leads))}× to {number(max(leads))}× as fast there.")
    ahead = len(leads)
    kind = "ahead" if ahead * 2 > len(found) else "behind" if of[LeadVerdict.behind] else "undecided"
    return Answer(question, f"ahead in {ahead} of {len(found)} works", said, kind)


def answers(rows: list[HeadlineRow], lost: list[Loss]) -> list[Answer]:
    """What a reader wants to know first: the gain over glibc, over the best malloc, and where there is none."""
    over_glibc = [(row, row.over_glibc) for row in rows if row.over_glibc]
    over_best = [(row, row.over_best) for row in rows if row.over_best]
    best = _against("Against the best malloc measured", "every installed malloc", over_best)
    if missing := [f"“{row.headline.work}”" for row in rows if row.not_measured]:
        best.said.append(f"Not every installed malloc was measured in {', '.join(missing)}: no ratio is given there.")
    worst: dict[str, Loss] = {}
    for loss in sorted(lost, key=lambda loss: -loss.ratio):
        worst.setdefault(loss.where, loss)
    said = [
        f"{loss.contender} is {number(loss.ratio)}× ({range_text(loss.low, loss.high)}) as fast in “{loss.where}”."
        for loss in worst.values()
    ]
    figure = f"{len(worst)} measurements where something is faster" if worst else "nothing measured is surely faster"
    return [
        _against("Against glibc's malloc, the better of new and make_shared", "glibc's malloc", over_glibc),
        best,
        Answer("Where not to use it", figure if rows else "not measured", said, "behind" if said else "undecided"),
    ]


def of_claims(claims: list[Claim]) -> list[str]:
    said = []
    for who, chosen in (
        ("Of the published claims", [c for c in claims if c.by != OURS_BY]),
        ("Of pooled's own promises", [c for c in claims if c.by == OURS_BY]),
    ):
        if any(claim.verdict is not Verdict.unknown for claim in chosen):
            said.append(f"{who}, {counted(chosen)}.")
    return said


def of_run(cells: int, runs: int, failed: int) -> str:
    said = f"{runs:,} processes were run for {cells:,} cells"
    return said + (f"; {failed} of them failed (see Failures)." if failed else "; none failed.")


def losses(groups: list[Group], samples: dict) -> list[Loss]:
    """Where a contender behind a smart pointer is significantly faster than ours, on any malloc. The limits (raw
    pointers, one fixed slot) are no contenders in this sense."""
    found = []
    for group in groups:
        main = [row for row in group.rows if _counts(row)]
        ours = next((row for row in main if row.cell.contender == OURS and row.cell.malloc == "glibc"), None)
        if ours is None or group.description.measure_of(group.variant) != "ns_per_op" or group.description.base:
            continue
        for row in main:
            if row.cell.contender.startswith(OURS) or row.cell.contender in group.description.limits:
                continue
            if row.time.median >= ours.time.median or row.cell.scale != ours.cell.scale:
                continue
            low, high = stats.ratio_interval(samples[ours.cell, "ns_per_op"], samples[row.cell, "ns_per_op"])
            if low > 1 and math.isfinite(high):
                ratio = ours.time.median / row.time.median
                name = row.cell.contender + ("" if row.cell.malloc == "glibc" else f" on {row.cell.malloc}")
                found.append(Loss(group.title, name, row.time.median, ours.time.median, ratio, low, high))
    return found


def _counts(row: Row) -> bool:
    return row.time is not None and row.cell.toolchain == MAIN_TOOLCHAIN and row.cell.optimisation == "-O3"
