# SPDX-License-Identifier: BSL-1.0
"""Which handle and which pool to take, from what was measured with the user's own type."""

import dataclasses
from dataclasses import dataclass

from poolbench.analysis.estimate import Rows, fastest_first, matching
from poolbench.analysis.headlines import Lead, Verdict, lead
from poolbench.plan.description import TIME

# Contender -> what the user writes, simplest first: a more special one must earn its place.
SHARED = {
    "pooled": "pooled::make_shared<T>(...)",
    "pooled_instance": "pool.make_shared<T>(...), a separate pooled::pool",
    "pooled_rc": "pooled::make_rc<T>(...), an rc_ptr of 8 bytes",
}
SOLE = {"pooled_unique": "pooled::make_unique<T>(...)"}
STANDARD = {"make_shared": "std::make_shared<T>(...)", "new": "std::shared_ptr<T>(new T(...))"}
STANDARD_SOLE = {"make_unique": "std::make_unique<T>(...)"}
WRITTEN = {**SHARED, **SOLE, **STANDARD, **STANDARD_SOLE}


@dataclass(frozen=True)
class Choice:
    """For one kind of ownership."""

    ownership: str
    take: str  # contender
    ns: float
    over_glibc: Lead  # the standard's pointer on glibc's malloc, the better of its forms
    saved_ns: float
    best_malloc: str
    over_best: Lead  # the same on the best malloc of this machine
    malloc_over_glibc: Lead  # what that malloc alone gains, over glibc's

    @property
    def written(self) -> str:
        return WRITTEN[self.take]

    @property
    def worth_it(self) -> bool:
        return self.over_glibc.verdict is Verdict.ahead

    @property
    def malloc_is_enough(self) -> bool:
        """It is shown that another malloc gains, and no less than we do."""
        shown = self.over_best.verdict in (Verdict.even, Verdict.behind)
        return self.malloc_over_glibc.verdict is Verdict.ahead and shown


def _choice(ownership: str, standard: tuple[str, ...], handles: dict[str, str], estimated: Rows) -> Choice | None:
    theirs = fastest_first(matching(estimated, {"contender": list(standard)}))
    glibc = [row for row in theirs if row["malloc"] == "glibc"]
    mine = matching(estimated, {"contender": list(handles), "malloc": "glibc"})
    found = {row["contender"]: row for row in mine}
    candidates = [name for name in handles if name in found]
    if not glibc or not candidates:
        return None
    take = candidates[0]
    for name in candidates[1:]:
        if lead(take, [found[take]], found[name]).verdict is Verdict.ahead:
            take = name
    best, ours = theirs[0]["malloc"], found[take]
    over_glibc, over_best = lead(glibc[0]["contender"], glibc, ours), lead(best, theirs, ours)
    saved, malloc = glibc[0]["median"] - ours["median"], lead("glibc", glibc, theirs[0])
    return Choice(ownership, take, ours["median"], over_glibc, saved, best, over_best, malloc)


def advise(estimated: Rows) -> list[Choice]:
    """For objects that several parts of a program own, and for those that one owns."""
    times = matching(estimated, {"measure": TIME})
    found = (
        _choice("are shared between owners", tuple(STANDARD), SHARED, times),
        _choice("have one owner at a time", tuple(STANDARD_SOLE), SOLE, times),
    )
    return [choice for choice in found if choice is not None]


def record(choice: Choice) -> dict:
    """For programs."""
    more = {name: getattr(choice, name) for name in ("written", "worth_it", "malloc_is_enough")}
    more |= {f"{name}_verdict": getattr(choice, name).verdict for name in ("over_glibc", "over_best")}
    return dataclasses.asdict(choice) | more


def records(estimated: Rows) -> list[dict]:
    """What was measured, the fastest first."""
    return [
        {"written": WRITTEN.get(row["contender"], row["contender"]),
         **{name: row[name] for name in ("contender", "malloc", "median", "low", "high", "n")}}
        for row in fastest_first(matching(estimated, {"measure": TIME}))
    ]  # fmt: skip


def _times(gain: Lead) -> str:
    return f"{gain.ratio:.2f} times ({gain.low:.2f}…{gain.high:.2f})"


def in_words(choice: Choice) -> list[str]:
    """What to do, what it gains, and against what."""
    ours, malloc = choice.written, choice.best_malloc
    objects = f"Objects that {choice.ownership}"
    if not choice.worth_it:
        told = {
            Verdict.behind: "a significant loss",
            Verdict.even: "shown to make no difference",
            Verdict.undecided: "undecided (--samples 30 --budget 5m may decide it)",
        }
        found = choice.over_glibc.verdict
        yet = " for now, since nothing is shown yet" if found is Verdict.undecided else ""
        said = [
            f"{objects}: keep the standard's pointer{yet}. "
            f"{ours} has {_times(choice.over_glibc)} its speed on glibc's malloc: {told[found]}."
        ]
        if malloc != "glibc" and choice.malloc_over_glibc.verdict is Verdict.ahead:
            said.append(
                f"  Preload {malloc}: the same pointer is {_times(choice.malloc_over_glibc)} as fast there as on "
                f"glibc's malloc, and {ours} has {_times(choice.over_best)} that speed."
            )
        return said
    saved = choice.saved_ns
    cores = f"{saved / 10:.2g}% of a core" if saved < 1000 else f"{saved / 1000:.1f} cores"
    said = [
        f"{objects}: take {ours}.",
        f"  It is {_times(choice.over_glibc)} as fast as the standard's pointer on glibc's malloc, and saves "
        f"{saved:,.1f} ns an object: {cores} at a million objects a second.",
    ]
    if malloc != "glibc":
        best = f"the standard's pointer on {malloc}, the best malloc here"
        times = _times(choice.over_best)
        told = {
            Verdict.ahead: f"  It is {times} as fast as {best}.",
            Verdict.behind: f"  It is {times} as fast as {best}: a significant loss.",
            Verdict.even: f"  It is shown to be as fast as {best} ({times}): preload {malloc}.",
            Verdict.undecided: f"  It is {times} as fast as {best}: undecided. Preloading {malloc} may do as well.",
        }
        said.append(told[choice.over_best.verdict])
        if choice.over_best.verdict is Verdict.behind:
            said[0] = f"{objects}: preload {malloc}, or take {ours}."
    return said
