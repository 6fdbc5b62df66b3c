# SPDX-License-Identifier: BSL-1.0
"""From the windows of traces to a plan that cpp/replay.cpp carries out: objects, and who begins and ends them
in which order.

An object whose begin was not seen existed before the window: it is created before the clock runs, by the thread that
creates most of that size. A replay needs the complete order, so only whole windows are used; of many, every n-th.
"""

import struct
from dataclasses import dataclass

import numpy as np

from poolprofile.census import Census, Key, keys_of, pairs
from poolprofile.trace import Trace

MAGIC = b"poolplan1"
MOST_THREADS = 8  # further ones share
MOST_EVENTS = 1_500_000
FEWEST_EVENTS = 200
OBJECT = np.dtype([("size", "<u4"), ("group", "<u2"), ("align", "u1"), ("before", "u1")])
OPERATION = np.dtype([("place", "<u4"), ("what", "<u4")])
LARGEST = 1 << 26  # bytes of an object that is replayed


@dataclass(frozen=True)
class Plan:
    data: bytes
    threads: int
    windows: int
    events: int
    pairs: float  # of all objects: a begin and an end are a half each
    pairs_of: dict[Key, float]


def _chosen(found: Trace, most: int) -> list[np.ndarray]:
    """Row numbers of the events of each window that is replayed."""
    ticks = found.events["tick"]
    windows = [
        np.arange(np.searchsorted(ticks, each.begin), np.searchsorted(ticks, each.end, side="right"))
        for each in found.windows
    ]
    windows = [rows for rows in windows if len(rows) >= FEWEST_EVENTS]
    total = sum(map(len, windows))
    if total > most:
        windows = windows[:: -(-total // most)]
    return windows


def _majority(values: np.ndarray, by: np.ndarray) -> dict[int, int]:
    """by -> the value that it most often has."""
    found: dict[int, int] = {}
    if len(values):
        unique, counts = np.unique(np.stack([by, values]), axis=1, return_counts=True)
        for at in np.argsort(counts, kind="stable"):
            found[int(unique[0, at])] = int(unique[1, at])
    return found


def _drawn(of_usable: dict, sizes: np.ndarray) -> dict[int, tuple[Key, int]]:
    """From the place in `sizes` (usable bytes) to kind and requested bytes, drawn at random as the samples are
    distributed."""
    rng, found = np.random.default_rng(0), {}
    for size in np.unique(sizes):
        those = of_usable.get(int(size), [])
        if not those:
            continue
        weights = np.array([weight for _, _, weight in those])
        places = np.nonzero(sizes == size)[0]
        for place, lot in zip(places, rng.choice(len(those), len(places), p=weights / weights.sum()), strict=True):
            found[int(place)] = those[lot][:2]
    return found


def _window(census: Census, number: int, found: Trace, rows: np.ndarray, groups: dict[Key, int]):
    """(objects, operations, thread of each operation) of one window."""
    begins, ends, only_ends = pairs(found, rows)
    in_time = np.argsort(begins)  # neighbours in time are neighbours in the replay's own tables
    begins, ends = begins[in_time], ends[in_time]
    sizes, aligns = found.event_sizes[rows], found.event_aligns[rows]
    _, threads = np.unique(found.event_threads[rows], return_inverse=True)
    threads = threads.reshape(-1) % MOST_THREADS
    own = np.zeros(len(begins), OBJECT)
    own["size"] = np.clip(sizes[begins], 1, LARGEST)
    own["align"] = aligns[begins]
    keys, place = keys_of(census, number, found.events["caller"][rows][begins], sizes[begins])
    own["group"] = np.array([groups.get(key, 0) for key in keys], np.uint16)[place]
    # Of those that existed before, only the usable size is known. The samples tell what outlives a window; of a size
    # that none of them has, the objects that were seen whole.
    whole = ends >= 0
    usable = sizes[ends[whole]]
    size_of = _majority(own["size"][whole].astype(np.int64), usable)
    group_of = _majority(own["group"][whole].astype(np.int64), usable)
    thread_of = _majority(threads[begins[whole]].astype(np.int64), usable)
    before = np.zeros(len(only_ends), OBJECT)
    drawn = _drawn(census.of_usable[number], sizes[only_ends])
    for at, row in enumerate(only_ends):
        size = int(sizes[row])
        group, asked = group_of.get(size, 0), size_of.get(size, size)
        if at in drawn:
            key, asked = drawn[at]
            group = groups.get(key, 0)
        before[at] = (min(max(1, asked), LARGEST), group, 0, 1 + thread_of.get(size, int(threads[row])))
    objects = np.concatenate([own, before])
    place = np.concatenate([begins, ends[whole], only_ends])
    index = np.concatenate([
        np.arange(len(own)) << 1, (np.nonzero(whole)[0] << 1) | 1,
        ((len(own) + np.arange(len(before))) << 1) | 1,
    ])  # fmt: skip
    order = np.argsort(place, kind="stable")
    operations = np.zeros(len(place), OPERATION)
    operations["place"], operations["what"] = place[order], index[order]
    return objects, operations, threads[place[order]]


def make(census: Census, pooled: list[Key]) -> Plan | None:
    """`pooled`: the kinds, whose numbers are their places and one. None: no window has enough events."""
    groups = {key: number + 1 for number, key in enumerate(pooled)}
    windows = []
    for number, found in enumerate(census.traces):
        for rows in _chosen(found, MOST_EVENTS // len(census.traces)):
            windows.append(_window(census, number, found, rows, groups))
    if not windows:
        return None
    threads = 1 + max(int(each[2].max()) for each in windows)
    parts = [MAGIC, struct.pack("<II", threads, len(windows))]
    counts = np.zeros(len(pooled) + 1)
    for objects, operations, by in windows:
        parts += [struct.pack("<I", len(objects)), objects.tobytes()]
        for thread in range(threads):
            mine = operations[by == thread]
            parts += [struct.pack("<I", len(mine)), mine.tobytes()]
        counts += np.bincount(objects["group"][operations["what"] >> 1], minlength=len(counts)) / 2
    return Plan(
        b"".join(parts), threads, len(windows), sum(len(each[1]) for each in windows), float(counts.sum()),
        {key: float(counts[number]) for key, number in groups.items()},
    )  # fmt: skip
