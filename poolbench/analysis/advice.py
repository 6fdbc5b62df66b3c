# SPDX-License-Identifier: BSL-1.0
"""Which handle and which pool to take, from what was measured of the user's own shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from poolbench.analysis import stats
from poolbench.analysis.estimate import matching
from poolbench.plan.description import TIME

WORTH = 0.05  # a gain is worth a change of the program when its interval excludes less than this

# Contender -> what the user writes, simplest first: a more special one must earn its place.
SHARED = {
    "pooled": "pooled::make_shared<T>(...)",
    "pooled_instance": "pool.make_shared<T>(...), a pooled::pool of one's own",
    "pooled_rc": "pooled::make_rc<T>(...), an rc_ptr of 8 bytes",
    "pooled_local": "local_pool.make_shared<T>(...), a pooled::local_pool for each thread",
}
SOLE = {"pooled_unique": "pooled::make_unique<T>(...)"}
STANDARD = {"make_shared": "std::make_shared<T>(...)", "new": "std::shared_ptr<T>(new T(...))"}
STANDARD_SOLE = {"make_unique": "std::make_unique<T>(...)"}
WRITTEN = {**SHARED, **SOLE, **STANDARD, **STANDARD_SOLE}


@dataclass(frozen=True)
class Gain:
    """How many times as fast."""

    ratio: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        return self.low > 1 + WORTH and math.isfinite(self.high)


@dataclass(frozen=True)
class Choice:
    """For one kind of ownership."""

    ownership: str
    take: str  # contender
    ns: float
    over_glibc: Gain  # the standard's pointer on glibc's malloc
    saved_ns: float
    best_malloc: str
    over_best: Gain  # the same on the best malloc of this machine

    @property
    def written(self) -> str:
        return WRITTEN[self.take]

    @property
    def worth_it(self) -> bool:
        return self.over_glibc.sure


def _gain(slow: dict, fast: dict) -> Gain:
    low, high = stats.ratio_interval(slow["values"], fast["values"])
    return Gain(slow["median"] / fast["median"], low, high)


def _choice(ownership: str, standard: str, ours: dict[str, str], frame: pl.DataFrame) -> Choice | None:
    theirs = {row["malloc"]: row for row in matching(frame, {"contender": standard}).iter_rows(named=True)}
    found = {
        row["contender"]: row
        for row in matching(frame, {"contender": list(ours), "malloc": "glibc"}).iter_rows(named=True)
    }
    candidates = [name for name in ours if name in found]
    if "glibc" not in theirs or not candidates:
        return None
    take = candidates[0]
    for name in candidates[1:]:
        if _gain(found[take], found[name]).sure:
            take = name
    best = min(theirs, key=lambda name: theirs[name]["median"])
    return Choice(
        ownership,
        take,
        found[take]["median"],
        _gain(theirs["glibc"], found[take]),
        theirs["glibc"]["median"] - found[take]["median"],
        best,
        _gain(theirs[best], found[take]),
    )


def advise(frame: pl.DataFrame) -> list[Choice]:
    """For objects that several parts of a program own, and for those that one owns."""
    times = matching(frame, {"measure": TIME})
    found = (
        _choice("are shared between owners", "make_shared", SHARED, times),
        _choice("have one owner at a time", "make_unique", SOLE, times),
    )
    return [choice for choice in found if choice is not None]


def in_words(choice: Choice) -> list[str]:
    """What to do, what it gains, and against what."""

    def times(gain: Gain) -> str:
        return f"{gain.ratio:.2f} times ({gain.low:.2f}…{gain.high:.2f})"

    if not choice.worth_it:
        return [
            f"Objects that {choice.ownership}: keep the standard's pointer. {choice.written} measured "
            f"{times(choice.over_glibc)} its speed on glibc's malloc: no sure gain."
        ]
    said = [
        f"Objects that {choice.ownership}: take {choice.written}.",
        f"  It gains {times(choice.over_glibc)} over the standard's pointer on glibc's malloc: "
        f"{choice.saved_ns:.1f} ns an object, {choice.saved_ns / 10:.2g}% of a core at a million objects a second.",
    ]
    if choice.best_malloc != "glibc":
        best = f"the best malloc here, {choice.best_malloc}"
        if choice.over_best.sure:
            said.append(f"  Over {best}, it gains {times(choice.over_best)}.")
        else:
            said.append(
                f"  Over {best}, it gains nothing sure ({times(choice.over_best)}): preloading that does as well."
            )
    return said
