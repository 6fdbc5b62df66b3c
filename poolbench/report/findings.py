# SPDX-License-Identifier: BSL-1.0
"""What was found, in words: the first thing that a reader of the page sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poolbench.analysis import stats
from poolbench.analysis.claims import Claim, Verdict
from poolbench.analysis.headlines import OURS
from poolbench.analysis.headlines import Row as HeadlineRow
from poolbench.analysis.rows import Group, Row
from poolbench.plan.description import MAIN_TOOLCHAIN
from poolbench.tables import number, range_text

OURS_BY = "pooled"  # of a claim


@dataclass(frozen=True)
class Loss:
    """A contender that is surely faster than ours at the same work."""

    where: str
    contender: str
    theirs: float
    ours: float
    ratio: float
    low: float
    high: float


def _list(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def _times(row: HeadlineRow) -> str:
    return f"{number(row.ratio)} times ({range_text(row.low, row.high)}) in “{row.headline.work}”"


def of_headlines(rows: list[HeadlineRow]) -> list[str]:
    if not rows:
        return ["No work was measured both with std::make_shared and with pooled, so there is nothing to compare."]
    ahead = sorted((row for row in rows if row.verdict == "ahead"), key=lambda row: row.ratio)
    said = [
        f"Objects held by std::shared_ptr: pooled is ahead of the best malloc of this machine in "
        f"{len(ahead)} of {len(rows)} works"
    ]
    if len(ahead) > 1:
        said[0] += f", from {_times(ahead[0])} to {_times(ahead[-1])}."
    elif ahead:
        said[0] += f": {_times(ahead[0])}."
    else:
        said[0] += "."
    for verdict in ("even", "behind"):
        if found := [
            f"“{row.headline.work}” ({range_text(row.low, row.high)})" for row in rows if row.verdict == verdict
        ]:
            said.append(f"It is {verdict} in {_list(found)}.")
    if glibc := sorted(
        row.mallocs["glibc"]["median"] / row.ours[OURS]["median"] for row in rows if "glibc" in row.mallocs
    ):
        said.append(f"Over glibc's malloc, which a program has unless it asks for another, the gain is "
                    f"{number(glibc[0])} to {number(glibc[-1])} times.")  # fmt: skip
    return said


def of_claims(claims: list[Claim]) -> list[str]:
    said = []
    for who, chosen in (
        ("Of the published claims", [c for c in claims if c.by != OURS_BY]),
        ("Of pooled's own promises", [c for c in claims if c.by == OURS_BY]),
    ):
        counts = [sum(claim.verdict is verdict for claim in chosen) for verdict in Verdict]
        if any(counts[:2]):
            parts = [f"{count} {verdict}" if count == 1 else f"{count} {_plural(verdict)}"
                     for count, verdict in zip(counts, Verdict, strict=True) if count]  # fmt: skip
            said.append(f"{who}, {_list(parts)}.")
    return said


def _plural(verdict: Verdict) -> str:
    return {Verdict.holds: "hold here", Verdict.fails: "do not hold here", Verdict.unknown: "are not shown"}[verdict]


def of_run(cells: int, runs: int, failed: int) -> str:
    said = f"{runs:,} processes were run for {cells:,} cells"
    return said + (f"; {failed} of them failed (see Failures)." if failed else "; none failed.")


def losses(groups: list[Group], samples: dict) -> list[Loss]:
    """Where a contender behind a smart pointer is surely faster than ours, on any malloc. The limits (raw pointers, one
    fixed slot) are no contenders in this sense."""
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
