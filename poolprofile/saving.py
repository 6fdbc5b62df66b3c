# SPDX-License-Identifier: BSL-1.0
"""What pooling would save: the plan is replayed with malloc, with each other malloc, with each kind in the pool, and
on each malloc with all that make_shared creates in the pool; a process a sample, interleaved.

What malloc costs now was recorded in the program itself, whose heap and threads no replay has. What the other way would
cost comes from the replay: the cost of the kind on malloc, less the difference between the replay with the kind in the
pool and that with all on malloc. The kinds share the replay's time on malloc in proportion to their recorded costs:
with the mean of all kinds, an expensive kind would seem to cost nothing in the pool, a cheap one more than on malloc.
The saving is the difference, times the objects of the whole run.

    saving = present cost - cost after the change      0 <= cost after the change
    present cost of all objects <= processor time of the program

So no predicted saving exceeds the time in malloc and free, nor that of the program. Where the calls of the windows seem
to take longer than the program had, all present costs are reduced in the same proportion.

What the program's own code gains or loses because objects and code lie elsewhere comes on top: it depends on how the
program walks them, which no trace shows. A replay that touches each object as it begins and ends, at the recorded
addresses, shows 1 to 2 ns an object: such accesses do not depend on each other, so the processor overlaps their cache
misses, while a walk waits for each. So no end of an interval is a bound of what a change saves."""

import json
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolbench.analysis import stats
from poolbench.errors import Failed
from poolbench.measure.sample import environment
from poolbench.system import process
from poolbench.system.mallocs import DEFAULT, OURS, Malloc
from poolprofile.census import Census, Key, Kind
from poolprofile.plan import Plan

LIMIT = 300.0  # seconds of one replay
TARGET_SECONDS = 0.3  # of the rounds that count
FEWEST_ROUNDS, MOST_ROUNDS = 5, 50  # of each window the least time is taken
NEW, NONE = "new", "none"


@dataclass(frozen=True)
class Mode:
    """One way to replay."""

    pooled: str  # "malloc", "new" (operator new in its place) or "none", and the numbers of kinds in the pool
    malloc: str = DEFAULT


@dataclass(frozen=True)
class Saving:
    ns: float  # an object, from its begin to its end
    share: float  # of the program's processor time
    low: float
    high: float

    @property
    def verdict(self) -> str:
        return "saves" if self.low > 0 else "costs" if self.high < 0 else "undecided"


def _replay(replayer: Path, plan: Path, mode: Mode, malloc: Malloc, rounds: int) -> float:
    ended = process.run([str(replayer), str(plan), mode.pooled, str(rounds)], environment(malloc), LIMIT)
    if ended.status != 0:
        why = "no result in time" if ended.status is None else f"status {ended.status}: {ended.stderr.strip()[-300:]}"
        raise Failed(f"the replay on {malloc.name} failed: {why}")
    found = json.loads(ended.stdout.splitlines()[-1])
    if malloc.path and Path(found["malloc_path"]).resolve() != Path(malloc.path).resolve():
        raise Failed(f"{malloc.path} was not loaded: the replay ran on {found['malloc']}")
    return float(found["seconds"])


def measure(
    replayer: Path, plan: Path, modes: list[Mode], mallocs: dict[str, Malloc], samples: int, seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Mode, list[float]]:  # fmt: skip
    """Seconds of a replay, of all its threads together: `samples` processes of each mode, shuffled in each round.
    Raises Failed."""
    once = _replay(replayer, plan, modes[0], mallocs[modes[0].malloc], 1)
    rounds = 1 + min(MOST_ROUNDS, max(FEWEST_ROUNDS, math.ceil(TARGET_SECONDS / max(once, 1e-4))))
    order = random.Random(seed)
    found: dict[Mode, list[float]] = {mode: [] for mode in modes}
    for number in range(samples):
        for at, mode in enumerate(order.sample(modes, len(modes))):
            found[mode].append(_replay(replayer, plan, mode, mallocs[mode.malloc], rounds))
            progress(number * len(modes) + at + 1, samples * len(modes))
    return found


def _drawn(rng: np.random.Generator, values: list[float]) -> np.ndarray:
    """Medians of resamples, widened as Student's t asks: of few runs the resampled median varies too little."""
    from scipy.stats import norm, t

    drawn = np.median(rng.choice(np.asarray(values), (stats.RESAMPLES, len(values))), axis=1)
    widening = float(t.ppf(0.975, max(1, len(values) - 1)) / norm.ppf(0.975))
    return stats.median(values) + (drawn - stats.median(values)) * widening


def _saving(
    census: Census, rng: np.random.Generator, kinds: list[Kind], replayed: float, replayed_draws: np.ndarray
) -> Saving:
    """`replayed`: ns of an object after the change; not less than none, whatever is subtracted from a replay. A replay
    uses the same memory again and again, so what new memory costs the program is on neither side."""
    cpu_ns = max(census.cpu_seconds, 1e-9) * 1e9
    part = 1.0 / max(1.0, census.share_inside)  # all calls together take no longer than the program
    objects = max(sum(kind.objects for kind in kinds), 1.0)
    recorded = part * sum(kind.objects * (kind.cost_ns - kind.new_memory_ns) for kind in kinds) / objects
    ns = recorded - max(0.0, replayed)
    size = len(replayed_draws)
    now, then = np.zeros(size), np.zeros(size)  # shares of the processor time
    for kind in kinds:
        count = kind.objects * np.maximum(0.0, rng.normal(1.0, kind.uncertainty, size))
        now += count * part * np.maximum(0.0, kind.cost_draws(rng, size) - kind.new_memory_ns) / cpu_ns
        then += count * np.maximum(0.0, replayed_draws) / cpu_ns
    low, high = np.percentile(np.minimum(1.0, now) - then, [2.5, 97.5])
    return Saving(ns, ns * objects / cpu_ns, float(low), float(high))


@dataclass(frozen=True)
class Savings:
    of_kind: dict[Key, Saving]
    of_malloc: dict[str, Saving]  # all objects on another malloc, or on pooled-new
    edited: list[Key]  # all that make_shared creates
    of_edit: dict[str, Saving]  # these in the pool and the rest on the malloc
    adds: dict[str, Saving]  # what the edit saves of what that malloc leaves
    plan: Plan | None = None  # what was replayed


def modes_of(planned: Plan, ranked: list[Key], edited: list[Key], libraries: Iterable[str]) -> list[Mode]:
    """Of each malloc also with the edit; that of pooled-new serves operator new alone."""
    numbers = {key: str(at + 1) for at, key in enumerate(planned.pairs_of)}
    edit = ",".join(numbers[key] for key in edited)
    found = [Mode(numbers[key]) for key in ranked]
    for name in libraries:
        base = NEW if name == OURS else "malloc"
        found += [Mode(base, name), Mode(f"{base},{edit}", name)] if edit else [Mode(base, name)]
    return list(dict.fromkeys([*found, Mode(NONE)]))


def conclude(
    census: Census, plan: Plan, ranked: list[Key], edited: list[Key], times: dict[Mode, list[float]]
) -> Savings:
    rng = np.random.default_rng(stats.SEED)  # all conclusions of a profile use the same draws of the replay times
    draws = {mode: _drawn(rng, values) for mode, values in times.items()}
    own, malloc = Mode(NONE), Mode("malloc")
    each_on_malloc = (stats.median(times[malloc]) - stats.median(times[own])) / plan.pairs
    each_on_malloc_draws = (draws[malloc] - draws[own]) / plan.pairs

    def of(mode: Mode, pairs: float, keys: list[Key], relative: float = 1.0) -> Saving:
        """`relative`: the cost of these on malloc, over the mean of all."""
        pairs = max(pairs, 1.0)
        gained = (stats.median(times[malloc]) - stats.median(times[mode])) / pairs
        drawn = each_on_malloc_draws * relative - (draws[malloc] - draws[mode]) / pairs
        replayed = each_on_malloc * relative - gained
        return _saving(census, rng, [census.kinds[key] for key in keys], replayed * 1e9, drawn * 1e9)

    def between(base: Mode, mode: Mode) -> Saving:
        """Of two replays alone: what malloc costs now does not matter."""
        per_pair = (stats.median(times[base]) - stats.median(times[mode])) / plan.pairs
        part = objects / max(census.cpu_seconds, 1e-9)
        drawn = (draws[base] - draws[mode]) / plan.pairs * part
        low, high = np.percentile(drawn, [2.5, 97.5])
        return Saving(per_pair * 1e9, per_pair * part, float(low), float(high))

    every = [key for key, kind in census.kinds.items() if kind.windows]
    objects = sum(census.kinds[key].objects for key in every)
    costs = _relative_costs(census, plan)
    of_mode = {mode: of(mode, plan.pairs, every) for mode in times if mode.malloc != DEFAULT}
    found = Savings({}, {m.malloc: each for m, each in of_mode.items() if "," not in m.pooled}, edited, {}, {}, plan)
    for at, key in enumerate(plan.pairs_of):
        if key in ranked:
            found.of_kind[key] = of(Mode(str(at + 1)), plan.pairs_of[key], [key], costs[key])
    for mode in times:
        base, _, groups = mode.pooled.partition(",")
        if not groups:
            continue
        found.adds[mode.malloc] = between(Mode(base, mode.malloc), mode)
        if mode in of_mode:
            found.of_edit[mode.malloc] = of_mode[mode]
        else:
            pairs = sum(plan.pairs_of[key] for key in edited)
            together = sum(plan.pairs_of[key] * costs[key] for key in edited) / max(pairs, 1.0)
            found.of_edit[DEFAULT] = found.adds[DEFAULT] = of(mode, pairs, edited, together)
    return found


def _relative_costs(census: Census, plan: Plan) -> dict[Key, float]:
    """What malloc and free of an object of each kind cost, over the mean of all objects that are replayed. Without the
    merging of freed blocks, and without new memory: a replay of a few milliseconds hardly ever meets them."""
    rest = [kind for key, kind in census.kinds.items() if key not in plan.pairs_of and kind.windows]
    warm = {key: census.kinds[key].calls_ns - census.kinds[key].new_memory_ns for key in plan.pairs_of}
    of_rest = sum(kind.objects * (kind.calls_ns - kind.new_memory_ns) for kind in rest) / max(
        sum(kind.objects for kind in rest), 1.0
    )
    pairs_of_rest = plan.pairs - sum(plan.pairs_of.values())
    total = sum(pairs * warm[key] for key, pairs in plan.pairs_of.items()) + pairs_of_rest * of_rest
    mean = total / max(plan.pairs, 1.0)
    return {key: warm[key] / mean if mean > 0 else 1.0 for key in plan.pairs_of}
