# SPDX-License-Identifier: BSL-1.0
"""Compares two results: are our contenders slower in the second?

Only our own contenders are judged, and only relative to the controls of the same two files: `drift` says why and how.
Cells, and groups of them (a contender, our cells of a workload, all of ours), are corrected after Holm. That two
things are alike is shown like everything else, by an interval that lies within the margin (two one-sided tests); what
shows neither a difference nor equality is undecided.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from poolbench.analysis import drift, stats
from poolbench.analysis.estimate import collect
from poolbench.plan.cell import Cell
from poolbench.plan.description import Description, default, is_ours
from poolbench.results.read import Results


class Verdict(enum.StrEnum):
    equal = "equal"
    differs = "differs"
    undecided = "undecided"


@dataclass(frozen=True)
class Difference:
    """Of a cell, or of a group of them; a ratio above 1 means that the second is slower (or larger)."""

    what: str
    estimate: drift.Estimate
    p: float  # after correction
    cells: int = 1
    cell: Cell | None = None
    before: float | None = None
    after: float | None = None

    @property
    def ratio(self) -> float:
        return math.exp(self.estimate.value)

    @property
    def low(self) -> float:
        return math.exp(self.estimate.interval()[0])

    @property
    def high(self) -> float:
        return _exp(self.estimate.interval()[1])

    @property
    def significant(self) -> bool:
        return self.p < stats.ALPHA

    def regression(self, above: float) -> bool:
        return self.significant and self.ratio > 1 + above

    def verdict(self, within: float) -> Verdict:
        if self.significant:
            return Verdict.differs
        return Verdict.equal if equal(self.estimate, within) else Verdict.undecided


@dataclass(frozen=True)
class Comparison:
    cells: list[Difference]  # of ours
    groups: list[Difference]
    shift: drift.Estimate  # of the session, from the controls
    controls: int
    judged: bool  # there are controls enough, or both sides were measured in one run
    repeated: dict[Verdict, int]  # all cells, controls too, by their plain times
    failed: list[tuple[Cell, str]]  # only in the second
    failed_in_both: int
    only_first: int
    only_second: int
    fewest_samples: int

    def regressions(self, above: float) -> list[Difference]:
        return [d for d in [*self.groups, *self.cells] if d.regression(above)] if self.judged else []

    def counts(self, within: float) -> dict[Verdict, int]:
        found = [each.verdict(within) for each in self.cells]
        return {verdict: found.count(verdict) for verdict in Verdict}

    def runs_wanted(self, within: float) -> int | None:
        """About how many a side would show most of the undecided cells equal or not; None when nothing is undecided."""
        errors = [d.estimate.error for d in self.cells if d.verdict(within) is Verdict.undecided]
        if not errors:
            return None
        # Half of the margin is left for the difference itself; 1.65 is the normal quantile of a one-sided test.
        needed = (1.65 * float(np.median(errors)) / (math.log1p(within) / 2)) ** 2
        return max(self.fewest_samples + 1, math.ceil(self.fewest_samples * needed))


Samples = dict[Cell, list[float]]
REPEATS_WITHIN = 0.10  # two runs of the same code should not differ by more than this


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))


def equal(estimate: drift.Estimate, within: float) -> bool:
    """Both one-sided tests at 5 % lie within the margin, which is the same as their 90 % interval."""
    low, high = estimate.interval(1 - 2 * stats.ALPHA)
    return -math.log1p(within) < low and high < math.log1p(within)


def main_samples(results: Results, descriptions: dict[str, Description]) -> Samples:
    """Of each cell the figure it is about. A figure that is zero or less has no ratio and is left out."""
    found: Samples = {}
    for (cell, measure), values in collect(results).items():
        description = descriptions.get(cell.workload) or default(cell.workload)
        if measure == description.measure_of(cell.variant) and min(values) > 0:
            found[cell] = values
    return found


def _groups(ours: list[int], cells: list[Cell]) -> Iterable[tuple[str, list[int]]]:
    yield "all of pooled", ours
    for axis in ("contender", "workload"):
        names = sorted({getattr(cells[i], axis) for i in ours})
        for name in names if len(names) > 1 or axis == "contender" else ():
            members = [i for i in ours if getattr(cells[i], axis) == name]
            if len(members) > 1:
                yield f"{axis} {name}", members


def _numbers(names: Iterable) -> np.ndarray:
    """A number a name."""
    known: dict = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=int)


def _where(group: Difference) -> bool:
    return group.what.startswith("workload")


def _corrected(found: list[Difference], families: Sequence[bool]) -> list[Difference]:
    """After Holm, each family for itself."""
    corrected = list(found)
    for family in set(families):
        rows = [i for i in range(len(found)) if families[i] == family]
        for i, p in zip(rows, stats.holm([found[i].estimate.p() for i in rows]), strict=True):
            corrected[i] = replace(found[i], p=p)
    return corrected


def judge(before: Samples, after: Samples, same_session: bool = False) -> Comparison | None:
    """None when nothing was measured on both sides."""
    cells = [cell for cell in before if cell in after]
    if not cells:
        return None
    a, b = [before[cell] for cell in cells], [after[cell] for cell in cells]
    found = drift.changes(a, b, paired=same_session)
    ours = [i for i, cell in enumerate(cells) if is_ours(cell.contender)]
    control = np.array([not is_ours(cell.contender) for cell in cells])
    model = drift.Model(
        found, _numbers(cell.workload for cell in cells), _numbers((c.contender, c.malloc, c.toolchain) for c in cells),
        control, same_session,
    )  # fmt: skip
    one_by_one = [
        Difference(str(cells[i]), model.of(np.array([i])), 1.0, cell=cells[i],
                   before=stats.median(a[i]), after=stats.median(b[i]))
        for i in ours
    ]  # fmt: skip
    groups = [
        Difference(what, model.of(np.array(members)), 1.0, len(members))
        for what, members in _groups(ours, cells)
        if len(members) > 1
    ]
    # Contenders are few and what one asks about; cells and workloads are many. A slowdown is one end of a two-sided
    # test, so two families at 5 % flag at most 5 % of unchanged pairs.
    corrected = _corrected([*one_by_one, *groups], [False] * len(one_by_one) + [not _where(each) for each in groups])
    return Comparison(
        corrected[: len(one_by_one)],
        corrected[len(one_by_one) :],
        model.shift,
        model.controls,
        model.can_judge and bool(ours),
        _repeated(model, len(cells)),
        [],
        0,
        len(before) - len(cells),
        len(after) - len(cells),
        min(min(len(x), len(y)) for x, y in zip(a, b, strict=True)),
    )


def _repeated(model: drift.Model, cells: int) -> dict[Verdict, int]:
    found = dict.fromkeys(Verdict, 0)
    for i in range(cells):
        plain = model.alone(i)
        differs = plain.p() < stats.ALPHA and abs(plain.value) > math.log1p(REPEATS_WITHIN)
        verdict = Verdict.differs if differs else Verdict.undecided
        found[Verdict.equal if equal(plain, REPEATS_WITHIN) else verdict] += 1
    return found


def compare(
    first: Results, second: Results, descriptions: dict[str, Description], same_session: bool = False
) -> Comparison | None:
    """None when the files have no cell in common."""
    before, after = main_samples(first, descriptions), main_samples(second, descriptions)
    broken, broken_before = second.failed_cells(), first.failed_cells()
    failed = [(cell, str(f.get("reason", "failed"))) for cell, f in broken.items() if cell not in broken_before]
    # What the second began and could not finish is no figure to compare.
    found = judge(before, {cell: values for cell, values in after.items() if cell not in broken}, same_session)
    if found is None and failed:
        nothing = drift.Estimate(0.0, 0.0, 1.0)
        found = Comparison([], [], nothing, 0, False, dict.fromkeys(Verdict, 0), [], 0, len(before), len(after), 0)
    if found is None:
        return None
    return replace(found, failed=failed, failed_in_both=len(set(broken) & set(broken_before)))
