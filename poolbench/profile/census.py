# SPDX-License-Identifier: BSL-1.0
"""What the traces of a program say of each type: how many, how large, how long they live, who frees them, what it costs.

Counts, lifetimes and the share that another thread frees come from the samples, which follow objects over the whole run;
the time in malloc and free comes from the windows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from poolbench.profile import naming, trace
from poolbench.profile.naming import Purpose
from poolbench.profile.symbols import Symbols, demangled
from poolbench.profile.trace import Trace

Key = tuple[str, str]  # type and how; of an unknown type the place and how


@dataclass
class Kind:
    """Objects of one type, created in one way."""

    type: str
    how: str
    advice: str
    sites: Counter[str] = field(default_factory=Counter)  # place in the user's code -> objects
    samples: int = 0
    objects: float = 0.0
    squares: float = 0.0  # of the samples' weights
    bytes: float = 0.0
    lives: list[np.ndarray] = field(default_factory=list)  # columns: ns, whether the end was seen, weight
    freed: float = 0.0
    freed_elsewhere: float = 0.0
    malloc_ns: list[np.ndarray] = field(default_factory=list)
    free_ns: list[np.ndarray] = field(default_factory=list)

    @property
    def site(self) -> str:
        return self.sites.most_common(1)[0][0] if self.sites else "??"

    @property
    def name(self) -> str:
        return self.type if self.type != "??" else "unknown type"

    @property
    def size(self) -> float:
        return self.bytes / self.objects if self.objects else 0.0

    @property
    def remote_share(self) -> float | None:
        return self.freed_elsewhere / self.freed if self.freed else None

    @property
    def uncertainty(self) -> float:
        """Of the count, as a share: that of a sum of random weights."""
        return self.squares**0.5 / self.objects if self.objects else 0.0

    def mean_cost(self, which: str) -> float | None:
        found = [each for each in getattr(self, which) if len(each)]
        # A call that the scheduler interrupted is none of malloc's: the slowest thousandth is left out.
        joined = np.sort(np.concatenate(found)) if found else np.empty(0)
        return float(joined[: max(1, round(len(joined) * 0.999))].mean()) if len(joined) else None

    @property
    def cost_ns(self) -> float:
        """Of a malloc and a free."""
        return (self.mean_cost("malloc_ns") or 0.0) + (self.mean_cost("free_ns") or 0.0)

    def survival(self) -> tuple[np.ndarray, np.ndarray]:
        """Kaplan and Meier's estimate: times in ns, and the share that lives longer than each. An object whose end was
        not seen counts as alive for as long as it was followed."""
        lives = np.concatenate(self.lives) if self.lives else np.empty((0, 3))
        lives = lives[np.argsort(lives[:, 0], kind="stable")]
        at_risk = np.cumsum(lives[::-1, 2])[::-1]
        left = np.where(lives[:, 1] > 0, 1 - lives[:, 2] / np.maximum(at_risk, 1e-9), 1.0)
        return lives[:, 0], np.cumprod(left)

    def median_life(self) -> float | None:
        """ns; None: more than half outlive what was seen."""
        times, left = self.survival()
        below = np.nonzero(left <= 0.5)[0]
        return float(times[below[0]]) if len(below) else None

    def live(self, seconds: float) -> float:
        """Alive at once, on average: as many as are created in a mean life."""
        times, left = self.survival()
        if not len(times) or seconds <= 0:
            return 0.0
        steps = np.diff(np.concatenate([[0.0], times]))
        mean_ns = float(np.sum(steps * np.concatenate([[1.0], left[:-1]])))
        return self.objects / seconds * min(mean_ns / 1e9, seconds)


@dataclass
class Census:
    program: str
    traces: list[Trace]
    kinds: dict[Key, Kind]
    of_event: list[dict[tuple[int, int], Key]]  # a trace: caller and size -> kind
    of_caller: list[dict[int, Key]]

    @property
    def seconds(self) -> float:
        return max((each.seconds for each in self.traces), default=0.0)

    @property
    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds for each in self.traces)

    @property
    def objects(self) -> float:
        return sum(kind.objects for kind in self.kinds.values())

    def ranked(self) -> list[Kind]:
        return sorted(self.kinds.values(), key=lambda kind: -kind.objects * max(kind.cost_ns, 1.0))


def busiest(traces: list[Trace]) -> tuple[list[Trace], list[Trace]]:
    """Those of the program that took most of the processor, and the others: shells, helpers."""
    spent: Counter[str] = Counter()
    for each in traces:
        spent[each.program] += max(each.cpu_seconds, 1e-9)
    program = spent.most_common(1)[0][0]
    return [t for t in traces if t.program == program], [t for t in traces if t.program != program]


def _types_of(found: Trace) -> dict[tuple[int, int], int]:
    """(caller, size) -> the type that most of its objects were, by their virtual tables."""
    begins = found.samples[found.samples["weight"] > 0]
    type_of = {int(each["id"]): int(each["text"]) for each in found.samples[found.samples["end"] == trace.FREED]}
    votes: dict[tuple[int, int], Counter[int]] = {}
    for each in begins:
        number = type_of.get(int(each["id"]))
        if number is not None:
            votes.setdefault((int(each["caller"]), int(each["size"])), Counter())[number] += 1
    return {key: counted.most_common(1)[0][0] for key, counted in votes.items()}


def _key(found: Purpose) -> Key:
    several = found.type == naming.UNKNOWN or found.how == "container"
    return (f"{found.type} at {found.where}" if several else found.type, found.how)


def _kind_of(census: Census, found: Purpose) -> Kind:
    return census.kinds.setdefault(_key(found), Kind(found.type, found.how, found.advice))


def _count_samples(census: Census, found: Trace, symbols: Symbols, names: dict[str, str]) -> None:
    types = _types_of(found)
    is_begin = found.samples["weight"] > 0
    begins, begin_threads = found.samples[is_begin], found.sample_threads[is_begin]
    ended = {
        int(each["id"]): (int(each["tick"]), int(each["end"]), int(thread))
        for each, thread in zip(found.samples[~is_begin], found.sample_threads[~is_begin], strict=True)
    }
    purposes: dict[tuple[int, int, int], Purpose] = {}
    votes: dict[tuple[int, int], Counter[Key]] = {}
    lives: dict[Key, list[tuple[float, float, float]]] = {}
    for each, thread in zip(begins, begin_threads, strict=True):
        caller, size, stack, weight = (int(each[name]) for name in ("caller", "size", "text", "weight"))
        if (caller, size, stack) not in purposes:
            frames = symbols.frames(found.stacks.get(stack) or (caller,))
            named = found.types.get(types.get((caller, size), 0), "")
            purposes[caller, size, stack] = naming.purpose(frames, names.get(named, ""))
        what = purposes[caller, size, stack]
        kind = _kind_of(census, what)
        votes.setdefault((caller, size), Counter())[_key(what)] += weight
        kind.samples += 1
        kind.objects += weight
        kind.squares += weight * weight
        kind.bytes += weight * size
        kind.sites[what.where] += weight
        until, how, by = ended.get(int(each["id"]), (found.last_tick, 0, 0))
        if how == trace.FREED:
            kind.freed += weight
            kind.freed_elsewhere += weight if by != thread else 0
        life = max(0, until - int(each["tick"])) / found.ticks_per_ns
        lives.setdefault(_key(what), []).append((life, float(how == trace.FREED), float(weight)))
    for key, rows in lives.items():
        census.kinds[key].lives.append(np.array(rows))
    census.of_event.append({key: counted.most_common(1)[0][0] for key, counted in votes.items()})
    by_caller: dict[int, Counter[Key]] = {}
    for (caller, _), counted in votes.items():
        by_caller.setdefault(caller, Counter()).update(counted)
    census.of_caller.append({caller: counted.most_common(1)[0][0] for caller, counted in by_caller.items()})


def key_of(census: Census, number: int, caller: int, size: int) -> Key | None:
    return census.of_event[number].get((caller, size)) or census.of_caller[number].get(caller)


def pairs(found: Trace, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the events `rows`, as row numbers: the objects' begins and ends (-1: none was seen), of each object one; and
    the ends whose begin was not seen."""
    kinds = found.event_kinds[rows]
    is_begin = (kinds == trace.ALLOCATE) | (kinds == trace.RESIZE_NEW)
    order = np.lexsort((np.arange(len(rows)), found.events["address"][rows]))
    address, begins = found.events["address"][rows][order], is_begin[order]
    follows = np.zeros(len(order), bool)  # this one is the end of the one before it
    follows[1:] = (address[1:] == address[:-1]) & begins[:-1] & ~begins[1:]
    at_begin = np.nonzero(begins)[0]
    has_end = np.zeros(len(order), bool)
    has_end[:-1] = follows[1:]
    ends = np.where(has_end[at_begin], order[np.minimum(at_begin + 1, len(order) - 1)], -1)
    return order[at_begin], ends, order[~begins & ~follows]


def _count_events(census: Census, number: int, found: Trace) -> None:
    """What the calls cost, by kind."""
    begins, ends, _ = pairs(found, np.arange(len(found.events)))
    callers, sizes, costs = found.events["caller"][begins], found.event_sizes[begins], found.event_costs
    both = np.stack([callers, sizes.astype(np.uint64)], axis=1)
    unique, place = np.unique(both, axis=0, return_inverse=True)
    place = place.reshape(-1)
    of_place: dict[Key, list[int]] = {}
    for at, (caller, size) in enumerate(unique):
        if key := key_of(census, number, int(caller), int(size)):
            of_place.setdefault(key, []).append(at)
    for key, places in of_place.items():
        mine = np.isin(place, places)
        census.kinds[key].malloc_ns.append(costs[begins[mine]])
        census.kinds[key].free_ns.append(costs[ends[mine & (ends >= 0)]])


def take(traces: list[Trace]) -> Census:
    census = Census(traces[0].program, traces, {}, [], [])
    names = demangled({name for each in traces for name in each.types.values()})
    for number, each in enumerate(traces):
        symbols = Symbols(each.modules)
        symbols.load({int(caller) for caller in each.samples["caller"][each.samples["weight"] > 0]})
        symbols.load({address for stack in each.stacks.values() for address in stack})
        _count_samples(census, each, symbols, names)
        if len(each.events):
            _count_events(census, number, each)
    return census
