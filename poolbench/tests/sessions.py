# SPDX-License-Identifier: BSL-1.0
"""Sessions whose truth is known: the shape of a quick run, and what moves when. The tests judge a few hundred of them,
tools/simulate_sessions.py some thousands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from poolbench.analysis import compare
from poolbench.measure import stopping
from poolbench.measure.stopping import Rule, State
from poolbench.plan.description import is_ours
from poolbench.tests import support


@dataclass(frozen=True)
class World:
    """Standard deviations, of logarithms. A session moves everything together (`drift`), and unevenly: each workload
    and each cell by a tenth of that more or less, and each contender by `of_contenders` of it."""

    drift: float
    run: float = 0.05  # one process run of a cell; heavy-tailed
    uneven: float = 0.1
    of_contenders: float = 0.0


def quick_run():
    """The shape of one: twelve workloads of two variants, with the controls and the handles that a quick run has."""
    for number, variant in product(range(12), ("one", "two")):
        others = ("new", "raw", "boost_fast_pool", "tbb_scalable")[: 1 + number % 4]
        ours = ("pooled", "pooled_instance", "pooled_local", "pooled_rc")[: 2 + number % 3]
        for contender, malloc in (*product(["make_shared"], support.MALLOCS), *product((*others, *ours), ["glibc"])):
            yield support.cell(contender, malloc, f"w{number}_x", variant, payload=48)


CELLS = list(quick_run())


def kind(cell):
    return (cell.contender, cell.malloc)


def session(rng: np.random.Generator, world: World, slower: str = "", factor: float = 1.0, runs: int = 5) -> dict:
    """A quick run of five runs a cell."""
    everything = rng.normal(0, world.drift)
    workloads = {cell.workload: rng.normal(0, world.drift * world.uneven) for cell in CELLS}
    kinds = {kind(cell): rng.normal(0, world.drift * world.of_contenders) for cell in CELLS}
    own = rng.normal(0, world.drift * world.uneven, len(CELLS))
    noise = rng.standard_t(4, (len(CELLS), runs)) / np.sqrt(2) * world.run
    return {
        cell: list(20 * np.exp(everything + workloads[cell.workload] + kinds[kind(cell)] + own[i] + noise[i])
                   * (factor if cell.contender == slower else 1))
        for i, cell in enumerate(CELLS)
    }  # fmt: skip


def _share(pairs: int, pair: Callable, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return sum(bool(pair(rng).regressions(0.05)) for _ in range(pairs)) / pairs


def flagged(world: World, pairs: int, slower: str = "", factor: float = 1.0, seed: int = 13) -> float:
    """The share of pairs of sessions with a regression."""
    return _share(pairs, lambda rng: compare.judge(session(rng, world), session(rng, world, slower, factor)), seed)


# What `compare --bin OLD --bin NEW -w create_drop,e5` measures.
TWO_WORKLOADS = [cell for cell in CELLS if cell.workload in ("w1_x", "w2_x") and (is_ours(cell.contender) or
                 cell.malloc == "glibc")]  # fmt: skip


def one_run(rng: np.random.Generator, run: float, placed: float, slower: str, factor: float, rule: Rule):
    """Both executables in one run, which ends as the real one does. `run`: the deviation of a process run; `placed`: of
    what its code's place in memory makes of each cell of the new executable; what else the machine does meets both."""
    states = []
    for cell in TWO_WORKLOADS:
        now = factor if cell.contender == slower else 1.0
        sides = [20.0, 20.0 * now * np.exp(rng.normal(0, placed))]
        both = [State(support.cell(cell.contender, cell.malloc, cell.workload, cell.variant, side), "ns_per_op")
                for side in ("old", "new")]  # fmt: skip
        stopping.pair(both)
        while not all(stopping.settled(state, rule) for state in both):
            mood = np.exp(rng.normal(0, 0.3))
            for state, ns in zip(both, sides, strict=True):
                noise = np.exp(rng.standard_t(4) / np.sqrt(2) * run)
                state.add({"ns_per_op": ns * mood * noise}, 0.2)
        states.append((cell, both))
    old, new = ({cell: both[i].values for cell, both in states} for i in range(2))
    return compare.judge(old, new, same_session=True)


def interleaved(
    run: float, pairs: int, slower: str = "", factor: float = 1.0, seed: int = 13, placed: float = 0.01
) -> float:
    """The share of runs of two executables with a regression."""
    rule = Rule(least=7, most=30, precision=0.025)
    return _share(pairs, lambda rng: one_run(rng, run, placed, slower, factor, rule), seed)
