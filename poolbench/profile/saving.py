# SPDX-License-Identifier: BSL-1.0
"""What pooling would save: the plan is replayed with malloc, with each other malloc, with each kind in the pool and
with all of them, a process a sample, interleaved; the differences are carried over to the whole run."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poolbench.analysis import stats
from poolbench.measure.sample import environment
from poolbench.profile.census import Census, Key
from poolbench.profile.plan import Plan
from poolbench.system import process
from poolbench.system.mallocs import Malloc

LIMIT = 300.0  # seconds of one replay
TARGET_SECONDS = 0.15  # of the rounds that count
MOST_ROUNDS = 50
ALL = "all"


class ReplayFailed(RuntimeError):
    """A replay that ended badly, or ran on another malloc than asked for."""


@dataclass(frozen=True)
class Mode:
    """One way to replay."""

    pooled: str  # "malloc", the number of a kind, or "all"
    malloc: str = "glibc"


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
        raise ReplayFailed(f"the replay on {malloc.name} failed: {why}")
    found = json.loads(ended.stdout.splitlines()[-1])
    if malloc.path and Path(found["malloc_path"]).resolve() != Path(malloc.path).resolve():
        raise ReplayFailed(f"{malloc.path} was not loaded: the replay ran on {found['malloc']}")
    return float(found["seconds"])


def measure(
    replayer: Path, plan: Path, modes: list[Mode], mallocs: dict[str, Malloc], samples: int, seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Mode, list[float]]:  # fmt: skip
    """Seconds of a replay, of all its threads together: `samples` processes of each mode, in an order of its own each
    time. Raises ReplayFailed."""
    once = _replay(replayer, plan, modes[0], mallocs[modes[0].malloc], 1)
    rounds = 1 + min(MOST_ROUNDS, max(1, math.ceil(TARGET_SECONDS / max(once, 1e-4))))
    order = random.Random(seed)
    found: dict[Mode, list[float]] = {mode: [] for mode in modes}
    for number in range(samples):
        for at, mode in enumerate(order.sample(modes, len(modes))):
            found[mode].append(_replay(replayer, plan, mode, mallocs[mode.malloc], rounds))
            progress(number * len(modes) + at + 1, samples * len(modes))
    return found


def saving(
    before: list[float], after: list[float], pairs: float, objects: float, uncertainty: float, cpu_seconds: float
) -> Saving:
    """`pairs`: the objects that the replay created and dropped; `objects`: those of the whole run, known up to
    `uncertainty`."""
    rng = np.random.default_rng(stats.SEED)

    def medians(values: list[float]) -> np.ndarray:
        return np.median(rng.choice(np.asarray(values), (stats.RESAMPLES, len(values))), axis=1)

    # Of n runs the resampled median varies too little, the more so the fewer they are: widened as Student's t asks.
    middle = (stats.median(before) - stats.median(after)) / pairs
    drawn = (medians(before) - medians(after)) / pairs
    wider = _widening(min(len(before), len(after)))
    drawn = middle + (drawn - middle) * wider
    counts = objects * np.maximum(0.0, rng.normal(1.0, uncertainty, stats.RESAMPLES))
    low, high = np.percentile(drawn * counts / cpu_seconds, [2.5, 97.5])
    return Saving(middle * 1e9, middle * objects / cpu_seconds, float(low), float(high))


def _widening(runs: int) -> float:
    from scipy.stats import norm, t

    return float(t.ppf(0.975, max(1, runs - 1)) / norm.ppf(0.975))


@dataclass(frozen=True)
class Savings:
    of_kind: dict[Key, Saving]
    of_malloc: dict[str, Saving]  # all objects on another malloc
    of_all: Saving  # all that can be pooled


def conclude(census: Census, plan: Plan, pooled: list[Key], times: dict[Mode, list[float]]) -> Savings:
    base, cpu = times[Mode("malloc")], max(census.cpu_seconds, 1e-9)

    def of(mode: Mode, pairs: float, kinds: list[Key]) -> Saving:
        objects = sum(census.kinds[key].objects for key in kinds)
        squares = sum(census.kinds[key].squares for key in kinds)
        return saving(base, times[mode], max(pairs, 1.0), objects, squares**0.5 / max(objects, 1.0), cpu)

    return Savings(
        {key: of(Mode(str(at + 1)), plan.pairs_of[key], [key]) for at, key in enumerate(pooled)},
        {m.malloc: of(m, plan.pairs, list(census.kinds)) for m in times if m.pooled == "malloc" and m.malloc != "glibc"},
        of(Mode(ALL), sum(plan.pairs_of.values()), pooled),
    )
