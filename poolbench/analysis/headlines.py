# SPDX-License-Identifier: BSL-1.0
"""The summary: for each work the mallocs under make_shared, ours, the limit, and how far ahead ours is."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from poolbench.analysis import stats
from poolbench.analysis.estimate import fastest, matching
from poolbench.plan.description import MAIN_TOOLCHAIN, STANDARD, TIME, Description, Headline

OURS = "pooled"  # the contender that headlines are about: the default pool behind std::shared_ptr
OUR_HANDLES = {"pooled": "pooled", "pooled_instance": "instance", "pooled_local": "local_pool"}
SURE = 0.05  # a lead whose interval does not exclude this much is called even


@dataclass(frozen=True)
class Row:
    headline: Headline
    workload: str
    mallocs: dict[str, dict]  # name -> estimate of make_shared
    ours: dict[str, dict]  # contender -> estimate
    limit: dict | None
    best: str  # of the mallocs
    ratio: float  # best malloc / ours: above 1 ours is ahead
    low: float
    high: float
    extra: dict = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.low > 1 + SURE:
            return "ahead"
        return "behind" if self.high < 1 - SURE else "even"


def _row(headline: Headline, workload: str, frame: pl.DataFrame) -> Row | None:
    where = {"workload": workload, "measure": headline.measure, "toolchain": MAIN_TOOLCHAIN, "optimisation": "-O3"}
    here = matching(frame, {**where, **headline.where})
    mallocs = {row["malloc"]: row for row in matching(here, {"contender": STANDARD}).iter_rows(named=True)}
    glibc = matching(here, {"malloc": "glibc"})
    ours = {name: row for name in OUR_HANDLES if (row := fastest(matching(glibc, {"contender": name})))}
    if not mallocs or OURS not in ours:
        return None
    best = min(mallocs, key=lambda name: mallocs[name]["median"])
    low, high = stats.ratio_interval(mallocs[best]["values"], ours[OURS]["values"])
    limit = fastest(matching(glibc, {"contender": headline.limit})) if headline.limit else None
    ratio = mallocs[best]["median"] / ours[OURS]["median"]
    return Row(headline, workload, mallocs, ours, limit, best, ratio, low, high)


def rows(frame: pl.DataFrame, descriptions: dict[str, Description]) -> list[Row]:
    """In the order of the descriptions; a work that was not measured has no row."""
    found = [
        _row(headline, description.name, frame)
        for description in descriptions.values()
        for headline in description.headlines
    ]
    return [row for row in found if row is not None]


def times(rows: list[Row]) -> list[Row]:
    """Those that are about the time of an object. The others are percentiles or quotients, which no picture of times
    and no sentence about gains may mix in."""
    return [row for row in rows if row.headline.measure == TIME]
