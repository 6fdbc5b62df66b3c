# SPDX-License-Identifier: BSL-1.0
"""Stand-ins: a benchmark executable whose behaviour a test chooses, and results without any process."""

import json
import random
import sys
from pathlib import Path

from poolbench.plan import description, matrix
from poolbench.plan.cell import Cell
from poolbench.plan.description import ALL, Description
from poolbench.plan.program import Program, Workload
from poolbench.results import record

# One workload, "w". A contender's name says how its process behaves; all others take 2 ns, ours half of it, with a
# little noise. Started without site-packages: the tests start hundreds.
FAKE_BENCH = """
import json, os, sys, time
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if "--list" in sys.argv:
    contenders = [{"name": n, "variants": ["loop"]} for n in CONTENDERS]
    contenders.append({"name": "absent", "not_built": "its library is not installed"})
    print(json.dumps({"optimisation": OPTIMISATION, "compiler": "fake 1", "stdlib": "fakestd 1", "flags": "-O3",
        "workloads": [{"name": "w", "variants": ["loop"], "payloads": PAYLOADS, "contenders": contenders,
                       "default_threads": 0, "live": [], "steps": []}]}))
    sys.exit()
log = os.path.join(os.path.dirname(sys.argv[0]), "log")
contender = arguments["--contender"]
with open(log, "a") as file:
    file.write(contender + "\\n")
if contender == "crash":
    print("half a result", flush=True)
    os.kill(os.getpid(), 11)
if contender == "hang":
    print("working", flush=True)
    time.sleep(60)
if contender == "exit":
    sys.exit("out of memory")
time.sleep(SLEEP)
ns = (1.0 if contender.startswith("pooled") else 2.0) * (1 + os.urandom(1)[0] / 2550)
print(json.dumps({"workload": "w", "variant": "loop", "contender": contender, "ops": 10,
                  "payload": int(arguments.get("--payload", 48)),
                  "scale": float(arguments["--scale"]), "ns_per_op": ns, "malloc": "glibc", "operation": "one op",
                  "malloc_path": "", "peak_rss_bytes": 1000, "bytes_each": 64.0}))
"""


def program(path: Path, body: str) -> Path:
    """An executable file that runs this Python code."""
    path.write_text(f"#!{sys.executable} -IS\n{body}")
    path.chmod(0o755)
    return path


def fake_bench(
    directory: Path, contenders=("make_shared", "pooled"), optimisation: str = "-O3", sleep: float = 0, payloads=(48,)
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    values = (list(contenders), optimisation, sleep, list(payloads))
    head = f"CONTENDERS, OPTIMISATION, SLEEP, PAYLOADS = {values!r}\n"
    return program(directory / "pooled-bench", head + FAKE_BENCH)


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def cell(contender="make_shared", malloc="glibc", workload="w", variant="loop", toolchain="gcc", **rest) -> Cell:
    return Cell(workload, variant, contender, malloc, toolchain, **rest)


def sample(of: Cell, ns_per_op: float, **rest) -> dict:
    return record.line("sample", cell=of.to_record(), ns_per_op=ns_per_op, ops=10, operation="one op", **rest)


def session(**rest) -> dict:
    machine = {"cpu": "Test CPU", "cores": 2, "caches": ["L1 Data 32K"], "memory_mib": 1024, "governor": "unknown"}
    machine |= {"huge_pages": {"transparent": "madvise", "defrag": "madvise", "reserved": "0"}, "kernel": "Linux 6"}
    machine |= {"libc": "glibc 2.36", "virtual_machine": True}
    usual = {"profile": "quick", "selection": {}, "commit": "abc", "machine": machine, "mallocs": [], "programs": []}
    return record.line("session", **{**usual, "cells": 1, "notes": [], **rest})


MALLOCS = ["glibc", "tcmalloc", "jemalloc", "mimalloc", "mimalloc2", "mimalloc3", "snmalloc", "rpmalloc"]
MALLOCS.append("jemalloc-crate")


def quick_programs(path: Path = Path("pooled-bench")) -> list[Program]:
    return [
        Program(toolchain, path, optimisation, "fake 1", "fakestd 1", "-O3", "0", {
            name: _workload(each) for name, each in description.load().items()
        })
        for toolchain in ("gcc", "clang-libstdcxx", "clang-libcxx") for optimisation in ("-O3", "-O0")
    ]  # fmt: skip


def quick_cells() -> list[Cell]:
    """Those of a quick run of everything that is described, on every malloc that the set-up provides."""
    return matrix.cells_of("quick", quick_programs(), MALLOCS, description.load())


def quick_results(path: Path, runs: int = 5) -> Path:
    """What a quick run of everything that is described would leave, with figures that mean nothing."""
    descriptions, programs = description.load(), quick_programs(path)
    rng = random.Random(1)
    named = [{"name": name, "version": "1", "path": ""} for name in MALLOCS]
    records = [session(programs=[each.describe() for each in programs], mallocs=named, notes=["a note"])]
    for each in quick_cells():
        ours = each.contender.startswith("pooled")
        middle = (5 if ours else 20 + 10 * MALLOCS.index(each.malloc)) * rng.uniform(0.5, 2)
        figures = {name: rng.uniform(1, 100) for name in descriptions[each.workload].figures}
        malloc = record.malloc(each.malloc, "1.0", f"/lib/{each.malloc}.so", "0" * 64)
        records += [sample(each, middle * rng.uniform(0.98, 1.02), figures=figures, malloc=malloc) for _ in range(runs)]
    failed = cell("boost_pool", workload="e6_fan_out", variant="copy", payload=48, threads=2)
    said = {"stdout": "", "stderr": "half a <b>result</b>"}
    records.append(record.line("failure", cell=failed.to_record(), kind="hang", reason="no result within 60 s", **said))
    return write(path, *records, record.line("finished", runs=len(records), failed=1))


def _workload(described: Description) -> Workload:
    """A workload that has whatever its description speaks of."""
    named = [c for part in described.cells if part.contender != ALL for c in part.contender]
    contenders = list(dict.fromkeys([*named, "new", "make_shared", "pooled", "tbb_scalable"]))
    variants = list(dict.fromkeys(v for part in described.cells if part.variant != ALL for v in part.variant))
    variants = variants or list(dict.fromkeys(h.where.get("variant", "v") for h in described.headlines)) or ["v"]
    steps = [[1, 64, 1024] if described.name == "e4_pool_patterns" else []] * len(variants)
    return Workload(described.name, dict.fromkeys(variants, contenders), {}, [], 0, [], steps)


def write(path: Path, *records: dict) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def results_file(path: Path, values: dict[Cell, list[float]], **figures) -> Path:
    """A finished results file with these times."""
    samples = [sample(of, ns, figures=figures) for of, times in values.items() for ns in times]
    return write(path, session(), *samples, record.line("finished", runs=len(samples), failed=0))


# What `advise` and `try` build: one workload, whose contenders take so many ns.
FAKE_TRIAL = """
import json, os, sys
ns = {"make_shared": 40, "make_unique": 30, "pooled": 10, "pooled_rc": 9.9, "pooled_unique": 5}
if "--list" in sys.argv:
    contenders = [{"name": n, "variants": VARIANTS} for n in ns]
    print(json.dumps({"optimisation": "-O3", "workloads": [{"name": NAME, "payloads": PAYLOADS, "default_threads": 2,
        "variants": VARIANTS, "live": [1] * len(VARIANTS), "steps": [], "contenders": contenders}]}))
    sys.exit()
a = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if a["--contender"] == FAILING:
    sys.exit("out of memory")
print(json.dumps({"ns_per_op": ns[a["--contender"]] * (1 + os.urandom(1)[0] / 10000), "ops": 1000, "malloc": "glibc",
    "malloc_path": "", "scale": float(a["--scale"]), "variant": a["--variant"], "operation": "one object"}
    | {n: int(a["--" + n]) for n in ("live", "threads") if "--" + n in a}))
"""


def fake_trial(directory: Path, name: str, variants: list[str], payloads=(), failing="") -> Path:
    values = (name, list(variants), list(payloads), failing)
    return program(directory / "bench", f"NAME, VARIANTS, PAYLOADS, FAILING = {values!r}\n" + FAKE_TRIAL)
