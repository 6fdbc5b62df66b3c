# SPDX-License-Identifier: BSL-1.0
"""Which cells need more samples. All cells are run in rounds, so that a change of the machine affects all cells alike.

first     `least` samples of every cell, then as many of those that decide a row of the summary as a verdict needs,
          whatever it takes
then      more of the cells that are not settled, as long as the budget lasts: those that decide a row of the summary
          before all others, and ten at least; when it does not suffice for a round of all of them, the quickest go
          on: a second buys more there
settled   the interval of the median is narrow enough; of two executables, that of the median of their quotients: run k
          of both are neighbours in time, so a quotient is free of what both met
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from dataclasses import dataclass, field, replace

from poolbench.plan.cell import Cell

NEAR = 1.25  # times the median of the fastest: a malloc with a run below it may be the fastest itself
FEWEST = 4  # runs of such a cell, whatever they take: with three of another one they may decide
DECIDING = 10  # runs of a cell that decides a row: a few that agree by chance may all be of one mode


@dataclass(frozen=True)
class Rule:
    least: int = 5
    most: int = 30
    precision: float = 0.02  # half the width of the interval, as a share of the median
    budget: float = float("inf")  # seconds of measuring, all sessions of a file together


@dataclass
class State:
    cell: Cell
    measure: str  # the figure whose interval counts
    expected: float | None = None  # seconds that a run took another time
    headline: str = ""  # the row of the summary where it is compared
    is_ours: bool = False
    values: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # what each run took
    runs: int = 0
    failure: dict | None = None
    judged: tuple[int, float] | None = None  # at how many runs, and for which precision, `narrow` was found
    narrow: bool = False
    other: State | None = None  # the same cell of the other executable, where two are compared

    def add(self, sample: dict, seconds: float) -> None:
        self.runs += 1
        self.seconds.append(seconds)
        value = sample.get("figures", {}).get(self.measure, sample["ns_per_op"])
        self.values.append(float(value))

    def cost(self, otherwise: float = 1.0) -> float:
        """Seconds that the next run is expected to take."""
        return sum(self.seconds) / len(self.seconds) if self.seconds else self.expected or otherwise

    @property
    def failed(self) -> bool:
        """A cell that fails in one of two executables has nothing to compare in the other."""
        return self.failure is not None or (self.other is not None and self.other.failure is not None)

    def judged_values(self) -> list[float]:
        """Those whose interval must be narrow."""
        if self.other is None:
            return self.values
        return [mine / its for mine, its in zip(self.values, self.other.values, strict=False) if mine > 0 and its > 0]


def pair(states: list[State]) -> None:
    """Cells that differ in the executable alone are judged together."""
    known: dict[Cell, State] = {}
    for state in states:
        same = replace(state.cell, toolchain="")
        if same in known:
            state.other, known[same].other = known[same], state
        known[same] = state


def settled(state: State, rule: Rule) -> bool:
    if state.failed or state.runs >= max(rule.least, rule.most):
        return True
    runs = min(state.runs, state.other.runs) if state.other else state.runs
    if runs < rule.least:
        return False
    if state.judged == (runs, rule.precision):
        return state.narrow
    from poolbench.analysis import stats  # SciPy takes half a second to load: not before it is needed

    values = state.judged_values()
    state.judged = runs, rule.precision
    state.narrow = len(values) == 0 or stats.half_width(values) <= rule.precision
    return state.narrow


def contested(states: list[State]) -> list[State]:
    """Of each row of the summary ours, and the mallocs that may be the fastest: one quick run is enough."""
    rows: dict[str, list[State]] = defaultdict(list)
    for state in states:
        if state.headline and state.values:
            rows[state.headline].append(state)
    found = []
    for row in rows.values():
        rivals = [statistics.median(state.values) for state in row if not state.is_ours]
        if 0 < len(rivals) < len(row):
            found += [s for s in row if s.is_ours or min(s.values) <= NEAR * min(rivals)]
    return found


def spent(states: list[State]) -> float:
    return sum(sum(state.seconds) for state in states)


def _within_budget(open_: list[State], states: list[State], rule: Rule) -> list[State]:
    left = rule.budget - spent(states)
    chosen = []
    for state in sorted(open_, key=State.cost):
        if state.cost() > left:
            break
        ahead = state.other is not None and state.runs > state.other.runs  # a round that was interrupted
        if not ahead and not settled(state, rule):
            left -= state.cost()
            chosen.append(state)
    return chosen


def next_round(states: list[State], rule: Rule, seed: int) -> list[State]:
    """The cells to run next, in an order of their own each time; empty when there is nothing left to do."""
    short = [s for s in states if not s.failed and s.runs < rule.least]
    least = min(FEWEST, rule.most)
    short = short or [s for s in contested(states) if not s.failed and s.runs < least]
    if short:
        # A round that was interrupted is completed first: it holds those with the fewest runs.
        fewest = min(s.runs for s in short)
        chosen = [s for s in short if s.runs == fewest]
    else:
        of_rows = replace(rule, least=max(rule.least, min(DECIDING, rule.most)))
        chosen = _within_budget(contested(states), states, of_rows) or _within_budget(states, states, rule)
    order = random.Random(f"{seed} {min((s.runs for s in chosen), default=0)}")
    order.shuffle(chosen)
    # Cells that differ in the executable alone are neighbours, in either order: they meet the same machine.
    place: dict[Cell, int] = {}
    for state in chosen:
        place.setdefault(replace(state.cell, toolchain=""), len(place))
    return sorted(chosen, key=lambda state: place[replace(state.cell, toolchain="")])


def seconds_left(states: list[State], rule: Rule) -> float:
    """At most: what is required, and what of the budget is left while something is not settled."""
    known = [s.cost() for s in states if s.seconds or s.expected]
    typical = sum(known) / len(known) if known else 1.0
    must = sum((rule.least - s.runs) * s.cost(typical) for s in states if not s.failed and s.runs < rule.least)
    open_ = rule.budget < float("inf") and any(not settled(s, rule) for s in states)
    return must + (max(0.0, rule.budget - spent(states) - must) if open_ else 0.0)
