# SPDX-License-Identifier: BSL-1.0
"""Which cells to measure: workload, variant, contender, malloc, toolchain and parameters."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from poolbench.machine import Malloc

# These take their memory from pages of their own (or in slabs of a thousand blocks): which malloc lies below
# makes no difference worth a run, so they run on glibc only.
OURS = ("pooled", "pooled_instance", "pooled_local")
MAIN_TOOLCHAIN = "gcc"


@dataclass(frozen=True)
class Executable:
    """One built benchmark and what it said it can measure."""

    toolchain: str
    path: Path
    optimisation: str = "-O3"
    # workload -> variant -> contenders built
    contenders: dict[str, dict[str, list[str]]] = field(default_factory=dict, hash=False, compare=False)
    not_built: dict[str, str] = field(default_factory=dict, hash=False, compare=False)
    payloads: dict[str, list[int]] = field(default_factory=dict, hash=False, compare=False)

    def has(self, workload: str, variant: str, contender: str) -> bool:
        return contender in self.contenders.get(workload, {}).get(variant, [])


@dataclass(frozen=True)
class Cell:
    """One thing to measure; its samples are one process run each."""

    executable: Executable
    workload: str
    variant: str
    contender: str
    malloc: Malloc
    scale: float
    payload: int | None = None
    threads: int | None = None
    live: int | None = None
    optional: bool = False  # may be left out of later rounds when time runs short

    def command(self) -> list[str]:
        words = [str(self.executable.path), self.workload, "--variant", self.variant, "--contender",
                 self.contender, "--scale", repr(self.scale), "--json"]  # fmt: skip
        for option, value in (("--payload", self.payload), ("--threads", self.threads), ("--live", self.live)):
            if value is not None:
                words += [option, str(value)]
        return words

    def group(self) -> tuple:
        """Cells of one group differ in contender, malloc and toolchain only: they may be compared."""
        return (self.workload, self.variant, self.payload, self.threads, self.live)

    def name(self) -> str:
        parts = [self.workload, self.variant, self.contender, self.malloc.name, self.executable.toolchain]
        if self.executable.optimisation != "-O3":
            parts.append(self.executable.optimisation)
        for label, value in (("payload", self.payload), ("threads", self.threads), ("live", self.live)):
            if value is not None:
                parts.append(f"{label}={value}")
        return " ".join(parts)


def load_executable(toolchain: str, path: Path) -> Executable:
    """Asks the executable what it can measure; raises when it cannot be run."""
    done = subprocess.run([str(path), "--list", "--json"], capture_output=True, text=True, check=True, timeout=60)
    listed = json.loads(done.stdout)
    contenders: dict[str, dict[str, list[str]]] = {}
    not_built: dict[str, str] = {}
    for workload in listed["workloads"]:
        by_variant = contenders.setdefault(workload["name"], {v: [] for v in workload["variants"]})
        for contender in workload["contenders"]:
            if "not_built" in contender:
                not_built[contender["name"]] = contender["not_built"]
                continue
            for variant in contender["variants"]:
                by_variant[variant].append(contender["name"])
    payloads = {workload["name"]: workload["payloads"] for workload in listed["workloads"]}
    return Executable(toolchain, path, listed["optimisation"], contenders, not_built, payloads)


class _Builder:
    """Collects cells, leaving out what is not built."""

    def __init__(self, mallocs: list[Malloc]):
        self.mallocs = mallocs
        self.cells: list[Cell] = []

    def add(self, exe: Executable | None, workload: str, variant: str, contenders: Iterable[str], *,
            every_malloc: bool = False, glibc: dict | None = None, **parameters) -> None:  # fmt: skip
        """`glibc`: parameters that differ on glibc, whose cost may be twenty times that of the others."""
        for contender in contenders if exe else ():
            if exe.has(workload, variant, contender):
                for malloc in self.mallocs if every_malloc else self.mallocs[:1]:
                    own = {**parameters, **(glibc or {})} if malloc.name == "glibc" else parameters
                    self.cells.append(Cell(exe, workload, variant, contender, malloc, **own))


def quick(executables: list[Executable], mallocs: list[Malloc]) -> list[Cell]:
    """Every workload within five minutes for three rounds on two cores; counts chosen for that, see each line."""
    optimised = [e for e in executables if e.optimisation == "-O3"]
    main = next((e for e in optimised if e.toolchain == MAIN_TOOLCHAIN), optimised[0] if optimised else None)
    plain = next((e for e in executables if e.optimisation == "-O0"), None)
    b = _Builder(mallocs)

    # A hundredth to a fifth of the full counts: 20 to 300 ms a cell. The slow ones get fewer still; a
    # result is per operation, and a row that was scaled differently from its table says so.
    loop = {"scale": 0.2, "payload": 48}
    b.add(main, "create_drop", "loop", ("make_shared",), every_malloc=True, **loop)
    b.add(main, "create_drop", "loop", (*OURS, "one_slot", "raw", "new", "boost_fast_pool_unlocked"), **loop)
    slower = {"scale": 0.01, "payload": 48}
    b.add(main, "create_drop", "loop", ("boost_fast_pool", "boost_pool", "block_pool_mutex", "block_pool_spin",
          "pmr_unsynchronized", "pmr_synchronized", "foonathan", "foonathan_locked", "tbb_scalable", "raw_new"),
          **slower)  # fmt: skip

    # E1: the ramp-up of five million nodes takes a second whatever the scale; 400 iterations renew 40 % of it.
    e1 = {"scale": 0.008}
    b.add(main, "e1_list_churn", "text", ("new",), every_malloc=True, **e1)
    b.add(main, "e1_list_churn", "text", ("make_shared",), every_malloc=True, **e1)
    b.add(main, "e1_list_churn", "text", ("boost_fast_pool", "raw", *OURS), **e1)
    b.add(main, "e1_list_churn", "text", ("boost_fast_pool_unlocked", "pmr_unsynchronized", "foonathan",
          "tbb_scalable", "raw_new"), optional=True, **e1)  # fmt: skip
    for other in optimised:
        if other is not main:
            b.add(other, "e1_list_churn", "text", ("new", "make_shared", "boost_fast_pool", "pooled"), **e1)
    # boost::pool_allocator searches its free list in order on each deallocation: at full size it needs hours.
    b.add(main, "e1_list_churn", "text", ("boost_pool",), scale=0.0002)

    # E2: ten bursts of the published size; three, of which the middle one counts, where a burst takes 0.7 s.
    for payload in (1500, 48):
        b.add(main, "e2_packet_burst", "burst", ("make_shared",), every_malloc=True, scale=1.0, payload=payload,
              glibc={"scale": 0.3})  # fmt: skip
        b.add(main, "e2_packet_burst", "burst", OURS, scale=1.0, payload=payload)
    e2 = {"scale": 1.0, "payload": 1500}
    b.add(main, "e2_packet_burst", "burst", ("raw", "block_pool_mutex", "block_pool_spin",
          "block_pool_mutex_raw", "block_pool_mutex_shared_ptr", "block_pool_spin_raw",
          "block_pool_spin_shared_ptr", "pooled_raw", "pooled_shared_ptr", "pooled_allocate_shared"), **e2)  # fmt: skip
    e2 = {"scale": 0.3, "payload": 1500}
    b.add(main, "e2_packet_burst", "burst", ("new", "raw_new"), **e2)
    b.add(main, "e2_packet_burst", "burst", ("boost_fast_pool", "pmr_unsynchronized", "pmr_synchronized",
          "foonathan", "tbb_scalable"), optional=True, **e2)  # fmt: skip
    b.add(main, "e2_packet_burst", "burst", ("boost_pool",), scale=0.0005, payload=1500)
    for exe in optimised:
        b.add(exe, "e2_packet_burst", "untouched", ("new", "make_shared", "block_pool_mutex", "pooled"), scale=1.0,
              payload=1500)  # fmt: skip

    # E3: two million of the hundred: a pair of new and delete is 20 ns, so 40 ms a cell.
    for exe in (main, plain):
        for variant in ("create", "pass", "vector"):
            known = exe.contenders.get("e3_pointer_overhead", {}).get(variant, []) if exe else []
            b.add(exe, "e3_pointer_overhead", variant, known, scale=0.02)
    memory = main.contenders.get("e3_pointer_overhead", {}).get("memory", []) if main else []
    b.add(main, "e3_pointer_overhead", "memory", memory, scale=0.02)

    # E5: a million and more hand-overs; some contenders need a microsecond or ten for each.
    for payload in (48, 1500):
        e5 = {"scale": 0.1, "payload": payload}
        b.add(main, "e5_handoff", "ring", ("make_shared",), every_malloc=True, **e5)
        b.add(main, "e5_handoff", "ring", (*OURS, "raw"), **e5)
    e5 = {"scale": 0.02, "payload": 48}
    b.add(main, "e5_handoff", "ring", ("new", "raw_new", "block_pool_mutex", "block_pool_spin", "boost_fast_pool",
          "foonathan_locked", "tbb_scalable"), **e5)  # fmt: skip
    b.add(main, "e5_handoff", "ring", ("boost_pool", "pmr_synchronized"), scale=0.002, payload=48)

    # E7: two threads; then how cost grows with threads (cores: two) and with live objects.
    e7 = {"scale": 0.1, "payload": 48}
    two = {**e7, "scale": 0.2, "threads": 2, "live": 10_000}
    b.add(main, "e7_random_replacement", "replace", ("make_shared",), every_malloc=True, **two)
    b.add(main, "e7_random_replacement", "replace", (*OURS, "raw", "tbb_scalable"), **two)
    slower = {**two, "scale": 0.01}
    b.add(main, "e7_random_replacement", "replace", ("new", "block_pool_mutex", "block_pool_spin",
          "boost_fast_pool", "boost_pool", "pmr_synchronized", "pmr_unsynchronized", "foonathan_locked"),
          **slower)  # fmt: skip
    for threads in (1, 4, 8):
        b.add(main, "e7_random_replacement", "replace", ("make_shared", "pooled"), threads=threads, live=10_000, **e7)
    for live in (1_000, 100_000, 1_000_000, 10_000_000):
        fewer = {**e7, "scale": 0.02} if live > 100_000 else e7  # a miss in every cache: 50 ns and more
        b.add(main, "e7_random_replacement", "replace", ("make_shared", "pooled"), threads=2, live=live, **fewer)

    # E10: full size, since memory is what is measured; boost_pool's drop would take hours.
    b.add(main, "e10_resident", "live", ("make_shared",), every_malloc=True, scale=1.0, live=5_000_000)
    b.add(main, "e10_resident", "live", (*OURS, "new", "block_pool_spin"), scale=1.0, live=5_000_000)
    b.add(main, "e10_resident", "live", ("boost_fast_pool", "pmr_unsynchronized", "tbb_scalable"), optional=True,
          scale=1.0, live=5_000_000)  # fmt: skip
    b.add(main, "e10_resident", "one_way", ("make_shared",), every_malloc=True, scale=1.0)
    b.add(main, "e10_resident", "one_way", ("pooled", "pooled_instance"), scale=1.0)
    return b.cells


def smoke(executables: list[Executable], mallocs: list[Malloc]) -> list[Cell]:
    """Every workload, variant, payload and contender of every executable once, tiny: arithmetic, not speed."""
    return [Cell(exe, workload, variant, contender, mallocs[0], 0.0001, payload=payload)
            for exe in executables
            for workload, variants in exe.contenders.items()
            for variant, contenders in variants.items()
            for contender in contenders
            for payload in exe.payloads.get(workload) or (None,)]  # fmt: skip


def not_built(executables: list[Executable]) -> Iterator[str]:
    """One sentence an executable and reason."""
    for exe in executables:
        by_reason: dict[str, list[str]] = {}
        for contender, why in exe.not_built.items():
            by_reason.setdefault(why, []).append(contender)
        for why, contenders in by_reason.items():
            yield f"{exe.toolchain} {exe.optimisation}: {', '.join(sorted(contenders))}: not built: {why}"
