# SPDX-License-Identifier: BSL-1.0
"""The summary: for each work the mallocs under make_shared, ours, the limit, and how far ahead ours is."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from poolbench.analysis import stats
from poolbench.analysis.estimate import Rows, fastest, fastest_first, matching
from poolbench.plan.cell import Cell
from poolbench.plan.description import MAIN_TOOLCHAIN, STANDARD, STANDARDS, Description, Headline
from poolbench.system.mallocs import OURS as OURS_PRELOADED

OURS = "pooled"  # the contender that headlines are about: the default pool behind std::shared_ptr
OUR_HANDLES = {"pooled": "pooled", "pooled_instance": "instance", "pooled_local": "local_pool"}
MARGIN = 0.05  # what is less makes no difference to a program
ORDERS = 35  # that runs of two equal contenders come in, with three and four; in two of them they lie apart


Verdict = enum.StrEnum("Verdict", "ahead behind even undecided")


@dataclass(frozen=True)
class Lead:
    """How many times as fast ours is as something else."""

    over: str
    ratio: float
    low: float
    high: float
    is_by_chance: bool = False  # two equal contenders may lie as far apart: so few runs, or on so busy a machine

    @property
    def verdict(self) -> Verdict:
        """By the whole interval: that two are even must be shown as well. An interval that is narrower than the margin
        always decides, whatever the ratio is, unless it is that of a few runs."""
        if self.is_by_chance:
            return Verdict.undecided
        if self.low >= 1 / (1 + MARGIN) and self.high <= 1 + MARGIN:
            return Verdict.even
        if self.low > 1 and math.isfinite(self.high):
            return Verdict.ahead
        return Verdict.behind if self.high < 1 else Verdict.undecided


def lead(over: str, theirs: Sequence[dict], ours: dict) -> Lead:
    """Over the fastest of theirs; which of them that is, is as uncertain as their medians."""
    best, *_ = theirs = fastest_first(theirs)
    low, high = stats.ratio_interval([row["values"] for row in theirs], ours["values"])
    runs, of_ours = len(best["values"]), len(ours["values"])
    return Lead(over, best["median"] / ours["median"], low, high, math.comb(runs + of_ours, runs) < ORDERS)


@dataclass(frozen=True)
class Row:
    headline: Headline
    workload: str
    mallocs: dict[str, dict]  # name -> estimate of make_shared
    ours: dict[str, dict]  # contender -> estimate
    limit: dict | None
    over_glibc: Lead | None  # over the better of `new` and `make_shared`
    over_best: Lead | None  # over the best malloc; None while an installed one was not measured
    not_measured: list[str] = field(default_factory=list)  # mallocs that are installed
    preloaded: dict | None = None  # estimate of make_shared on our own library, which is no rival of ours
    preload_over_best: Lead | None = None
    edit_over_preload: Lead | None = None

    @property
    def best(self) -> str:
        """The malloc that was fastest, of those measured."""
        return min(self.mallocs, key=lambda name: self.mallocs[name]["median"])


def _row(headline: Headline, workload: str, estimated: Rows, installed: Sequence[str]) -> Row | None:
    where = {"workload": workload, "measure": headline.measure, "toolchain": MAIN_TOOLCHAIN, "optimisation": "-O3"}
    here = matching(estimated, {**where, **headline.where})
    order = {name: at for at, name in enumerate(installed)}  # glibc first
    preloaded = fastest(matching(here, {"contender": STANDARD, "malloc": OURS_PRELOADED}))
    here = [row for row in here if row["malloc"] != OURS_PRELOADED]
    standard = matching(here, {"contender": STANDARD})
    mallocs = {row["malloc"]: row for row in sorted(standard, key=lambda row: order.get(row["malloc"], len(order)))}
    glibc = matching(here, {"malloc": "glibc"})
    ours = {name: row for name in OUR_HANDLES if (row := fastest(matching(glibc, {"contender": name})))}
    if not mallocs or OURS not in ours:
        return None
    limit = fastest(matching(glibc, {"contender": headline.limit})) if headline.limit else None
    not_measured = [name for name in installed if name not in mallocs]
    standards = [
        row
        for row in matching(glibc, {"contender": list(STANDARDS)})
        if row["cell"].cut_short == ours[OURS]["cell"].cut_short
    ] or [row for name, row in mallocs.items() if name == "glibc"]
    glibcs = lead(fastest(standards)["contender"], standards, ours[OURS]) if standards else None
    found = Row(headline, workload, mallocs, ours, limit, glibcs, None, not_measured, preloaded)
    if preloaded:
        found = replace(found, edit_over_preload=lead(OURS_PRELOADED, [preloaded], ours[OURS]))
    if not_measured:
        return found
    theirs = list(mallocs.values())
    by_preload = lead(found.best, theirs, preloaded) if preloaded else None
    return replace(found, over_best=lead(found.best, theirs, ours[OURS]), preload_over_best=by_preload)


def headline_of(cell: Cell, of: Description) -> Headline | None:
    """The row whose ratio this cell decides."""
    ours = cell.contender == OURS and cell.malloc == "glibc"
    theirs = cell.contender == STANDARD and cell.malloc != OURS_PRELOADED
    if not (ours or theirs) or (cell.toolchain, cell.optimisation) != (MAIN_TOOLCHAIN, "-O3"):
        return None
    return next((each for each in of.headlines if matching([vars(cell)], each.where)), None)


def rows(
    estimated: Rows, descriptions: dict[str, Description], installed: Sequence[str] = (), busy: bool = False
) -> list[Row]:
    """In the order of the descriptions; a work that was not measured has no row. `installed`: mallocs. On a busy
    machine nothing is decided."""
    installed = [name for name in installed if name != OURS_PRELOADED]
    works = [(headline, each.name) for each in descriptions.values() for headline in each.headlines]
    found = [row for work in works if (row := _row(*work, estimated, installed))]
    return [_undecided(row) for row in found] if busy else found


def _undecided(row: Row) -> Row:
    leads = {name: each for name, each in vars(row).items() if isinstance(each, Lead)}
    return replace(row, **{name: replace(each, is_by_chance=True) for name, each in leads.items()})


def by_use(rows: list[Row]) -> dict[str, list[Row]]:
    """What a program does -> its works, in the order of the first of each."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.headline.use, []).append(row)
    return found
