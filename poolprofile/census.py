# SPDX-License-Identifier: BSL-1.0
"""What the traces of a program say of each type: how many, how large, how long they live, who frees them, at what cost.

Lifetimes and the share that another thread frees come from the samples, which follow objects over the whole run; the
time in malloc and free comes from the windows; counts come from both. Calls that merge what was freed earlier are rare
and long, so the recorder notes each of them; they are the cost of the small objects whose blocks they merge.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from poolprofile import naming, trace
from poolprofile.naming import Purpose
from poolprofile.symbols import Symbols, demangled
from poolprofile.trace import Trace

FEWEST_IN_WINDOWS, FEWEST_WINDOWS = 1000, 5
# glibc keeps freed blocks of at most 120 bytes unmerged until it is asked for 1 KiB or more.
MOST_UNMERGED, LEAST_MERGING, MOST_MERGING = 120, 1 << 10, 128 << 10
FAULT_NS = 500  # no page fault takes less
NOTED_NS = 50_000  # a merging call that took longer is noted by the recorder, in windows, too
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
    # Rows: a window in which it occurs. Columns: what the window stands for (time), begins, ns of them, ends, ns.
    windows: list[np.ndarray] = field(default_factory=list)
    faults: float = 0.0  # ns of the windows' allocations that met a page fault, each for the time it stands for
    merging_ns: float = 0.0  # an object's share of the calls that merged freed blocks
    uncertainty: float = 0.0  # of the count, as a share

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

    def _sums(self) -> np.ndarray:
        rows = np.concatenate(self.windows) if self.windows else np.zeros((0, 5))
        return rows[:, 1:] * rows[:, :1]

    def _mean(self, count: int, cost: int) -> float | None:
        sums = self._sums().sum(axis=0)
        return max(0.0, float(sums[cost] / sums[count])) if sums[count] > 0 else None

    @property
    def malloc_ns(self) -> float | None:
        return self._mean(0, 1)

    @property
    def free_ns(self) -> float | None:
        return self._mean(2, 3)

    def cost_draws(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """`cost_ns` of resampled windows: calls of one window are not independent."""
        sums = self._sums()
        if len(sums) < 2:
            return np.full(draws, self.cost_ns)
        drawn = sums[rng.integers(0, len(sums), (draws, len(sums)))].sum(axis=1)
        each = drawn[:, [1, 3]] / np.maximum(drawn[:, [0, 2]], 1e-9)
        return np.maximum(each, 0.0).sum(axis=1) + self.merging_ns

    @property
    def calls_ns(self) -> float:
        """Of a malloc and a free."""
        return (self.malloc_ns or 0.0) + (self.free_ns or 0.0)

    @property
    def new_memory_ns(self) -> float:
        """Of a malloc, what page faults took. The program needs the memory with any malloc, and any pool."""
        begins = float(self._sums()[:, 0].sum())
        return min(self.faults / begins, self.malloc_ns or 0.0) if begins else 0.0

    @property
    def cost_ns(self) -> float:
        """Of a malloc, a free, and what merging the block took later."""
        return self.calls_ns + self.merging_ns

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
    # A trace: usable bytes of those that outlive a window -> what they are: kind, bytes asked for, weight.
    of_usable: list[dict[int, list[tuple[Key, int, float]]]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return max((each.seconds for each in self.traces), default=0.0)

    @property
    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds for each in self.traces)

    @property
    def objects(self) -> float:
        return sum(kind.objects for kind in self.kinds.values())

    @property
    def merging_seconds(self) -> float:
        return sum(each.long_ns for each in self.traces) / 1e9

    @property
    def new_memory_seconds(self) -> float:
        return sum(kind.objects * kind.new_memory_ns for kind in self.kinds.values()) / 1e9

    @property
    def share_inside(self) -> float:
        """Of the processor time, in malloc and free. Above 1: the calls in the windows took longer than others."""
        inside = sum(kind.objects * kind.cost_ns for kind in self.kinds.values())
        return inside / 1e9 / max(self.cpu_seconds, 1e-9)

    def ranked(self) -> list[tuple[Key, Kind]]:
        return sorted(self.kinds.items(), key=lambda item: -item[1].objects * max(item[1].cost_ns, 1.0))


def busiest(traces: list[Trace]) -> tuple[list[Trace], list[Trace]]:
    """Those of the program that took most of the processor, and the others: shells, helpers."""
    spent: Counter[str] = Counter()
    for each in traces:
        spent[each.program] += max(each.cpu_seconds, 1e-9)
    program = spent.most_common(1)[0][0]
    return [t for t in traces if t.program == program], [t for t in traces if t.program != program]


def _types_of(found: Trace) -> dict[tuple[int, int], int]:
    """(caller, size) -> the type that most of its objects were, by their virtual tables."""
    type_of = dict(found.samples[found.samples["end"] == trace.FREED][["id", "text"]].tolist())
    votes: dict[tuple[int, int], Counter[int]] = {}
    for number, caller, size in found.samples[found.samples["weight"] > 0][["id", "caller", "size"]].tolist():
        if number in type_of:
            votes.setdefault((caller, size), Counter())[type_of[number]] += 1
    return {key: counted.most_common(1)[0][0] for key, counted in votes.items()}


def _key(found: Purpose) -> Key:
    several = found.type == naming.UNKNOWN or found.how == "container"
    return (f"{found.type} at {found.where}" if several else found.type, found.how)


Place = tuple[int, int, int]  # caller, size, stack


def _purposes(
    found: Trace, begins: np.ndarray, types: dict[tuple[int, int], int], symbols: Symbols, names: dict[str, str]
) -> dict[Place, Purpose]:
    purposes: dict[Place, Purpose] = {}
    weights: Counter[Place] = Counter()
    for caller, size, stack, weight in begins[["caller", "size", "text", "weight"]].tolist():
        weights[caller, size, stack] += weight
        if (caller, size, stack) not in purposes:
            frames = symbols.frames(found.stacks.get(stack) or (caller,))
            named = found.types.get(types.get((caller, size), 0), "")
            purposes[caller, size, stack] = naming.purpose(frames, names.get(named, ""))
    return purposes | _behind_control_blocks(purposes, weights)


def _behind_control_blocks(purposes: dict[Place, Purpose], weights: Counter[Place]) -> dict[Place, Purpose]:
    """In `std::shared_ptr<T>(new T)` only the control block says what T is, where T has no virtual functions. The
    objects are those of one size that the same line creates, about as many as control blocks."""
    blocks: dict[str, Counter[str]] = {}
    unknown: dict[str, dict[int, list[Place]]] = {}
    for place, what in purposes.items():
        if what.how.endswith(naming.SEPARATE):
            blocks.setdefault(what.where, Counter())[what.type] += weights[place]
        elif what.type == naming.UNKNOWN and re.search(r":\d+$", what.where):
            unknown.setdefault(what.where, {}).setdefault(place[1], []).append(place)
    named: dict[Place, Purpose] = {}
    for where, by_size in unknown.items():
        if len(by_size) == 1 and len(blocks.get(where, ())) == 1:
            (places,), ((name, count),) = by_size.values(), blocks[where].items()
            if count / 2 <= sum(weights[place] for place in places) <= 2 * count:
                named |= dict.fromkeys(places, Purpose(name, "new", where))
    return named


def _count_samples(census: Census, found: Trace, symbols: Symbols, names: dict[str, str]) -> None:
    types = _types_of(found)
    is_begin = found.samples["weight"] > 0
    begins, begin_threads = found.samples[is_begin], found.sample_threads[is_begin]
    ends = found.samples[~is_begin][["id", "tick", "end", "caller"]].tolist()
    ended = {
        number: (tick, how, by, usable)
        for (number, tick, how, usable), by in zip(ends, found.sample_threads[~is_begin].tolist(), strict=True)
    }
    purposes = _purposes(found, begins, types, symbols, names)
    votes: dict[tuple[int, int], Counter[Key]] = {}
    lives: dict[Key, list[tuple[float, float, float]]] = {}
    outlived: dict[int, Counter[tuple[Key, int]]] = {}
    window = min((each.end - each.begin for each in found.windows), default=0)
    columns = begins[["id", "tick", "caller", "size", "text", "weight"]].tolist()
    for (number, tick, caller, size, stack, weight), thread in zip(columns, begin_threads.tolist(), strict=True):
        what = purposes[caller, size, stack]
        kind = census.kinds.setdefault(_key(what), Kind(what.type, what.how, what.advice))
        votes.setdefault((caller, size), Counter())[_key(what)] += weight
        kind.samples += 1
        kind.objects += weight
        kind.squares += weight * weight
        kind.bytes += weight * size
        kind.sites[what.where] += weight
        until, how, by, usable = ended.get(number, (found.last_tick, 0, 0, 0))
        if how == trace.FREED:
            kind.freed += weight
            kind.freed_elsewhere += weight if by != thread else 0
            if usable and until - tick > window:
                outlived.setdefault(usable, Counter())[_key(what), size] += weight
        life = max(0, until - tick) / found.ticks_per_ns
        lives.setdefault(_key(what), []).append((life, float(how == trace.FREED), float(weight)))
    for key, rows in lives.items():
        census.kinds[key].lives.append(np.array(rows))
    census.of_usable.append(
        {usable: [(*what, float(weight)) for what, weight in those.items()] for usable, those in outlived.items()}
    )
    census.of_event.append({key: counted.most_common(1)[0][0] for key, counted in votes.items()})
    by_caller: dict[int, Counter[Key]] = {}
    for (caller, _), counted in votes.items():
        by_caller.setdefault(caller, Counter()).update(counted)
    census.of_caller.append({caller: counted.most_common(1)[0][0] for caller, counted in by_caller.items()})


def keys_of(census: Census, number: int, callers: np.ndarray, sizes: np.ndarray) -> tuple[list, np.ndarray]:
    """The kinds of these objects of a trace (None: not known), and for each object which of them it is."""
    both = np.stack([callers, sizes.astype(np.uint64)], axis=1)
    unique, place = np.unique(both, axis=0, return_inverse=True)
    of_event, of_caller = census.of_event[number], census.of_caller[number]
    keys = [of_event.get((caller, size)) or of_caller.get(caller) for caller, size in unique.tolist()]
    return keys, place.reshape(-1)


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
    """What the calls cost, by kind and window."""
    ticks = found.events["tick"]
    begins_at = np.array([each.begin for each in found.windows], np.uint64)
    window_of = np.maximum(0, np.searchsorted(begins_at, ticks, side="right") - 1)
    # Early windows are closer together than later ones: each stands for the time since the one before it.
    ends_at = np.array([found.begin_tick, *(each.end for each in found.windows)], float)
    open_for = np.array([max(1, each.end - each.begin) for each in found.windows], float)
    stands_for = np.diff(ends_at) / open_for
    begins, ends, only_ends = pairs(found, np.arange(len(found.events)))
    costs = _costs(found)
    keys, place = keys_of(census, number, found.events["caller"][begins], found.event_sizes[begins])
    is_fault = _faults(found, costs, window_of)
    of_place: dict[Key, list[int]] = {}
    for at, key in enumerate(keys):
        if key:
            of_place.setdefault(key, []).append(at)
    usable, usable_place = np.unique(found.event_sizes[only_ends], return_inverse=True)
    usable_place = usable_place.reshape(-1)
    shares = _shares(census.of_usable[number], usable)

    def by_window(rows: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        return np.bincount(window_of[rows], weights, len(found.windows)).astype(float)

    for key in of_place.keys() | shares.keys():
        mine = np.isin(place, of_place.get(key, []))
        rows, freed = begins[mine], ends[mine & (ends >= 0)]
        counts, ns = by_window(freed), by_window(freed, costs[freed])
        at_fault = rows[is_fault[rows]]
        census.kinds[key].faults += float(np.sum(stands_for * by_window(at_fault, costs[at_fault])))
        if key in shares:
            share = shares[key][usable_place]
            counts += by_window(only_ends, share)
            ns += by_window(only_ends, share * costs[only_ends])
        columns = (stands_for, by_window(rows), by_window(rows, costs[rows]), counts, ns)
        census.kinds[key].windows.append(np.stack(columns, axis=1))


def _costs(found: Trace) -> np.ndarray:
    """Of each call in a window, without those that are noted: they are counted once, not for all windows."""
    costs, sizes = found.event_costs, found.event_sizes
    if len(found.long_calls):
        is_noted = (sizes >= LEAST_MERGING) & (sizes < MOST_MERGING) & (costs >= NOTED_NS)
        costs[is_noted & (found.event_kinds == trace.ALLOCATE)] = 0.0
    return costs


def _faults(found: Trace, costs: np.ndarray, window_of: np.ndarray) -> np.ndarray:
    """Which calls met a page fault: of each window as many as the process had, the longest ones. More are taken than
    there were, as the program's own code meets some, so less is predicted to be saved."""
    is_fault = np.zeros(len(costs), bool)
    candidates = np.nonzero((found.event_kinds != trace.DEALLOCATE) & (costs >= FAULT_NS))[0]
    for at, window in enumerate(found.windows):
        mine = candidates[window_of[candidates] == at]
        is_fault[mine[np.argsort(-costs[mine], kind="stable")[: window.faults]]] = True
    return is_fault


def _settle_merging(census: Census) -> None:
    """The calls that merged freed blocks are divided among the objects that were small enough to be merged."""
    small = [kind for kind in census.kinds.values() if kind.size <= MOST_UNMERGED] or list(census.kinds.values())
    objects = sum(kind.objects for kind in small)
    for kind in small:
        kind.merging_ns = census.merging_seconds * 1e9 / max(objects, 1.0)


def _shares(of_usable: dict[int, list[tuple[Key, int, float]]], sizes: np.ndarray) -> dict[Key, np.ndarray]:
    """Which share of the frees of each of `sizes` is of a kind: those whose begin no window saw are known by their
    usable bytes alone."""
    found: dict[Key, np.ndarray] = {}
    for at, size in enumerate(sizes):
        those = of_usable.get(int(size), [])
        total = sum(weight for _, _, weight in those)
        for key, _, weight in those:
            found.setdefault(key, np.zeros(len(sizes)))[at] += weight / total
    return found


def _settle_counts(census: Census) -> None:
    """How many of each kind. The samples' gaps give the exact number of all kinds together. For each kind, the windows
    are more exact than the few samples, if they contain a thousand of its objects."""
    total = sum(float(each.samples["gap"].sum()) for each in census.traces)
    in_windows = sum(float(kind._sums()[:, 0].sum()) for kind in census.kinds.values())
    for kind in census.kinds.values():
        sums = kind._sums()[:, 0]
        kind.uncertainty = kind.squares**0.5 / kind.objects if kind.objects else 0.0
        seen = sum(float(rows[:, 1].sum()) for rows in kind.windows)
        if seen >= FEWEST_IN_WINDOWS and len(sums) >= FEWEST_WINDOWS and in_windows and total:
            objects = total * float(sums.sum()) / in_windows
            kind.bytes *= objects / kind.objects
            kind.objects = objects
            spread = float(np.std(sums, ddof=1)) * len(sums) ** 0.5 / float(sums.sum())
            kind.uncertainty = min(kind.uncertainty, spread)


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
    _settle_counts(census)
    _settle_merging(census)
    return census
