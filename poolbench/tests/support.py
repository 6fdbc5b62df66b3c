# SPDX-License-Identifier: BSL-1.0
"""Stand-ins: a benchmark executable whose behaviour a test chooses, and results without any process."""

import json
import random
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from poolbench import cli, where
from poolbench.plan import description, matrix
from poolbench.plan.cell import Cell
from poolbench.plan.description import ALL, Description
from poolbench.plan.program import Program, Workload
from poolbench.results import record
from poolbench.system.mallocs import NAMES as MALLOCS

# One workload. A contender's name, or `behaves`, says how its process behaves. All others take what `ns` says, else 2
# ns, and ours half of it, with a little noise; `hand_over` is that figure of each run. Started without site-packages:
# the tests start hundreds.
FAKE_BENCH = """
import json, os, sys, time
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if "--list" in sys.argv:
    contenders = [{"name": n, "variants": VARIANTS} for n in CONTENDERS]
    contenders.append({"name": "absent", "not_built": "its library is not installed"})
    print(json.dumps({"optimisation": OPTIMISATION, "compiler": "fake 1", "stdlib": "fakestd 1", "flags": "-O3",
        "workloads": [{"name": WORKLOAD, "variants": VARIANTS, "payloads": PAYLOADS, "contenders": contenders,
                       "default_threads": THREADS, "live": LIVE, "steps": STEPS}]}))
    sys.exit()
log = os.path.join(os.path.dirname(sys.argv[0]), "log")
contender = arguments["--contender"]
with open(log, "a") as file:
    file.write(contender + "\\n")
contender = BEHAVES.get(contender, contender)
if contender == "crash":
    print("half a result", flush=True)
    os.kill(os.getpid(), 11)
if contender == "hang":
    print("working", flush=True)
    time.sleep(60)
if contender == "exit":
    sys.exit("out of memory")
time.sleep(SLEEP)
usual = 1.0 if contender.startswith("pooled") else 2.0
ns = NS.get(contender, usual) * (1 + NOISE * os.urandom(1)[0] / 255)
print(json.dumps({"workload": WORKLOAD, "variant": arguments["--variant"], "contender": arguments["--contender"],
                  "ops": 10, "payload": int(arguments.get("--payload", 48)), "scale": float(arguments["--scale"]),
                  "ns_per_op": ns, "malloc": "glibc", "operation": "one object", "malloc_path": "",
                  "peak_rss_bytes": 1000, "bytes_each": 64.0}
                 | ({"hand_over_ns": HAND_OVER[len(open(log).readlines()) - 1]} if HAND_OVER else {})
                 | ({"core_shared": CORE_SHARED[len(open(log).readlines()) - 1]} if CORE_SHARED else {})
                 | {n: int(arguments["--" + n]) for n in ("live", "threads") if "--" + n in arguments}))
"""


def program(path: Path, body: str) -> Path:
    """An executable file that runs this Python code."""
    path.write_text(f"#!{sys.executable} -IS\n{body}")
    path.chmod(0o755)
    return path


def fake_bench(directory: Path, contenders=("make_shared", "pooled"), **how) -> Path:
    usual = {"optimisation": "-O3", "sleep": 0, "payloads": [48], "workload": "w", "variants": ["loop"]}
    usual |= {"threads": 0, "live": [], "steps": [], "hand_over": [], "core_shared": []}
    values = {**usual, "ns": {}, "noise": 0.1, "behaves": {}, "contenders": list(contenders), **how}
    directory.mkdir(parents=True, exist_ok=True)
    head = "".join(f"{name.upper()} = {value!r}\n" for name, value in values.items())
    return program(directory / "pooled-bench", head + FAKE_BENCH)


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def started(*words, **how) -> subprocess.Popen:
    """A command as a process of its own, in a group of its own, so that a signal to it reaches nobody else. SIGHUP ends
    it also where the tests run under nohup."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    command = ["env", "--default-signal=HUP", sys.executable, "-m", "poolbench", *map(str, words)]
    return subprocess.Popen(command, cwd=where.PACKAGE.parent, **streams, **how)


def invoke(*words) -> Result:
    """What a command ends with."""
    return CliRunner().invoke(cli.app, [str(word) for word in words])


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


def quick_results(path: Path) -> Path:
    """What a quick run of everything that is described would leave, on every malloc that the set-up provides, with
    figures that mean nothing."""
    descriptions, optimisations = description.load(), ("-O3", "-O0")
    workloads = {name: _workload(each) for name, each in descriptions.items()}
    toolchains = [(name, each) for name in ("gcc", "clang-libstdcxx", "clang-libcxx") for each in optimisations]
    programs = [Program(name, path, each, "fake 1", "fakestd 1", "-O3", "0", workloads) for name, each in toolchains]
    rng = random.Random(1)
    named = [{"name": name, "version": "1", "path": ""} for name in MALLOCS]
    records = [session(programs=[each.describe() for each in programs], mallocs=named, notes=["a note"])]
    for each in matrix.cells_of("quick", programs, MALLOCS, descriptions):
        ours = each.contender.startswith("pooled")
        middle = (5 if ours else 20 + 10 * MALLOCS.index(each.malloc)) * rng.uniform(0.5, 2)
        figures = {name: rng.uniform(1, 100) for name in descriptions[each.workload].figures}
        malloc = {"name": each.malloc, "version": "1.0", "path": f"/lib/{each.malloc}.so", "sha256": "0" * 64}
        records += [sample(each, middle * rng.uniform(0.98, 1.02), figures=figures, malloc=malloc) for _ in range(5)]
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


def results_file(path: Path, values: dict[Cell, list[float]], finished=True, **about) -> Path:
    """A results file with these times; `about` the session."""
    samples = [sample(of, ns) for of, times in values.items() for ns in times]
    end = [record.line("finished", runs=len(samples), failed=0)] if finished else []
    return write(path, session(**about), *samples, *end)


def fake_trial(directory: Path, workload: str, variants, payloads=(), failing="") -> Path:
    """What `try` builds."""
    ns = {"make_shared": 40, "make_unique": 30, "pooled": 10, "pooled_rc": 9.9, "pooled_unique": 5}
    how = {"variants": list(variants), "payloads": list(payloads), "behaves": {failing: "exit"}}
    return fake_bench(directory, ns, workload=workload, ns=ns, noise=0.0255, **how)
