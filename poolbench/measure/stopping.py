# SPDX-License-Identifier: BSL-1.0
"""Which cells need more samples. All cells are run in rounds, so that a change of the machine affects all cells alike.

first     `least` samples of every cell, then as many of those that decide a row of the summary as a verdict needs,
          whatever it takes
then      as long as the budget lasts, more of the rows that are not decided: of as many rows as can be decided with
          what is left, those first that take least
last      more of the cells that are not settled; when the budget does not suffice for a round of all of them, the
          quickest go on: a second buys more there
decided   ours and the mallocs that may be the fastest have ten runs each, and the interval of their quotient shows a
          verdict and is narrower than the margin, or than the quotient is far from 1. That is half of what the verdict
          needs, so that it hardly hangs on when it was looked at; on which side of 1 it lies makes no difference
settled   the interval of the median is narrow enough; of two executables, that of the median of their quotients: run k
          of both are neighbours in time, so a quotient is free of what both met
"""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from dataclasses import dataclass, field, replace

from poolbench.plan.cell import Cell
from poolbench.results.read import ENOUGH, MOVED, hand_over

NEAR = 1.25  # times the median of the fastest: a malloc with a run below it may be the fastest itself
FEWEST = 4  # runs of such a cell, whatever they take: with three of another one they may decide
DECIDING = 10  # runs of a cell that decides a row: a few that agree by chance may all be of one mode
JUDGED_AGAIN = 1.05  # times as many runs of a row: it is judged again, which takes as long as a run of 30 ms
MOST_TIMES = 16  # as many runs as a row has are thought to decide it, however wide the interval of a few is


@dataclass(frozen=True)
class Rule:
    least: int = 5
    most: int = 30
    precision: float = 0.02  # half the width of the interval, as a share of the median
    budget: float = float("inf")  # seconds of measuring, all sessions of a file together


@dataclass(frozen=True)
class Wanted:
    """What may decide a row of the summary."""

    states: list[State]  # ours, and the mallocs that may be the fastest
    more: float  # runs of each; none when it is decided


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
    words: list[float] = field(default_factory=list)  # `hand_over` of each run
    row: tuple[int, Wanted] | None = None  # of ours: at how many runs of its row, and what was found
    other: State | None = None  # the same cell of the other executable, where two are compared

    def add(self, sample: dict, seconds: float) -> None:
        self.runs += 1
        self.seconds.append(seconds)
        value = sample.get("figures", {}).get(self.measure, sample["ns_per_op"])
        self.values.append(float(value))
        self.words.append(hand_over(sample))

    def compared(self, limit: float) -> list[float]:
        """As `estimate.collect` has them: without runs while the processors were further apart."""
        near = [value for value, word in zip(self.values, self.words, strict=False) if word <= limit]
        return near if len(near) >= ENOUGH else self.values

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


def _judge(row: list[State], limit: float) -> Wanted:
    import numpy as np

    from poolbench.analysis import headlines, stats

    ours, *theirs = ({"median": statistics.median(v), "values": v} for v in (state.compared(limit) for state in row))
    found = sorted(zip(theirs, row[1:], strict=True), key=lambda each: each[0]["median"])
    near = [(each, state) for each, state in found if min(each["values"]) <= NEAR * found[0][0]["median"]]
    bounds = stats.all_intervals(np.median, [each["values"] for each, _ in near])
    few = (state.runs < FEWEST or low <= bounds[0][1] for (_, state), (low, _) in zip(near, bounds, strict=True))
    states = [row[0], *(state for (_, state), may_be in zip(near, few, strict=True) if may_be)]
    runs, times = min(state.runs for state in states), float(MOST_TIMES)
    lead = headlines.lead("", [each for each, _ in near], ours)
    if lead.low > 0 and lead.high < math.inf:
        enough = max(math.log1p(headlines.MARGIN), abs(math.log(lead.ratio)))
        times = min(times, (math.log(lead.high / lead.low) / enough) ** 2)
    is_open = lead.verdict is headlines.Verdict.undecided
    return Wanted(states, max(DECIDING - runs, runs * (times - 1), 1.0 if is_open else 0.0))


def _wanted(states: list[State]) -> list[Wanted]:
    """Of each row of the summary with ours and a malloc."""
    limit = MOVED * min((word for state in states for word in state.words if word), default=0.0)
    rows: dict[str, list[State]] = defaultdict(list)
    for state in states:
        if state.headline and state.values and not state.failed:
            rows[state.headline].append(state)
    found = []
    for row in rows.values():
        row.sort(key=lambda state: not state.is_ours)
        if row[0].is_ours and len(row) > 1:
            runs = sum(state.runs for state in row)
            if row[0].row is None or row[0].row[0] * JUDGED_AGAIN < runs:
                row[0].row = runs, _judge(row, limit)
            found.append(row[0].row[1])
    return found


def contested(states: list[State]) -> list[State]:
    """Of each row of the summary ours, and the mallocs that may be the fastest: of few runs one quick one is enough, of
    more the interval must reach down to that of the fastest."""
    return [state for each in _wanted(states) for state in each.states]


def _of_rows(states: list[State], rule: Rule) -> list[State]:
    """The cells of the rows that can all be decided within the budget, as far as can be told; of one at least."""
    left, found = rule.budget - spent(states), []
    for each in _wanted(states):
        open_ = [state for state in each.states if state.runs < rule.most]
        if each.more and open_:
            once = sum(state.cost() for state in open_)
            found.append((each.more * once, once, open_))
    chosen: list[State] = []
    for whole, once, open_ in sorted(found, key=lambda each: each[0]):
        if once > left or (chosen and whole > left):
            break
        left -= whole
        chosen += open_
    return chosen


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
        chosen = _of_rows(states, rule) or _within_budget(states, states, rule)
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
