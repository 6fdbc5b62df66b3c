# SPDX-License-Identifier: BSL-1.0
"""poolbench advise: recommends a handle and a pool for objects of a given size, number and threads."""

import enum
import json
import re
from pathlib import Path

import typer

from poolbench import options
from poolbench.commands import trial
from poolbench.errors import BadInput
from poolbench.measure.run_plan import SEED
from poolbench.options import option
from poolbench.plan import program
from poolbench.plan.cell import Cell
from poolbench.results.read import Results
from poolbench.system import build, hardware, mallocs

EPILOG = """\b
Examples:
  poolbench advise --size 256 --threads 2 --live 100000 --pattern churn
  poolbench advise --size 1500 --threads 2 --live 4096 --pattern handoff
  poolbench advise --size 64 --threads 1 --live 1000000 --pattern burst --json
  poolbench advise --size 48,256,1500 --threads 2 --live 100000 --pattern mixed
\b
Patterns:
  burst    objects are created, then all are dropped, and again
  churn    random objects are replaced by new ones
  mixed    as churn, but seven of eight are among the youngest 64: most die young, some are kept
  handoff  half of the threads create, the other half drops what it is handed
  list     a list is built, walked, and dropped from its head, and again (of one size)
  fill     objects are created and kept: once, so that the growth of the heap is part of it
"""

WORKLOAD = "shape"
TARGET = "pooled-bench-shape"
MOST_BYTES = 16 << 20
MOST_SIZES = 8
MOST_THREADS = 256
TARGET_SECONDS = 0.2  # of one timed run
OVERHEAD = 64  # bytes an object may take beside its own, on any contender
STANDARD = ("make_shared", "make_unique", "new")  # measured on every malloc


Pattern = enum.StrEnum("Pattern", "burst churn mixed handoff list fill")


def sizes_of(text: str) -> list[int]:
    """ "256", or "48,256,1500"."""
    words = text.split(",")
    if not all(re.fullmatch(r"[0-9]{1,9}", word) and 1 <= int(word) <= MOST_BYTES for word in words):
        raise typer.BadParameter(
            f"'{text}' is no size: say 256, or 48,256,1500; each from 1 to {MOST_BYTES:,} bytes", param_hint="--size"
        )
    sizes = sorted({int(word) for word in words})
    if len(sizes) > MOST_SIZES:
        raise typer.BadParameter(f"{len(sizes)} sizes: {MOST_SIZES} at most", param_hint="--size")
    return sizes


def check(sizes: list[int], threads: int, live: int, pattern: Pattern) -> None:
    if pattern is Pattern.list and len(sizes) > 1:
        raise BadInput("a list is of one size: give one --size")
    if pattern is Pattern.handoff and threads % 2:
        raise BadInput(f"a hand-off is between pairs of threads: --threads must be even, not {threads}")
    if live < threads:
        raise BadInput(f"--live {live} is less than an object for each of {threads} threads")
    memory = hardware.describe()["memory_mib"]
    wanted = live * (sum(sizes) // len(sizes) + OVERHEAD) >> 20
    if memory and wanted > memory // 2:
        raise BadInput(
            f"{live:,} objects of {in_words(sizes)} bytes take {wanted:,} MiB: more than half of this machine's memory"
        )


def in_words(sizes: list[int]) -> str:
    words = [f"{size:,}" for size in sizes]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def built(sizes: list[int], pattern: Pattern, bins: list[str] | None) -> program.Program:
    """The benchmark compiled for objects of exactly these sizes."""
    if bins:
        name, path = options.pairs(bins, "--bin")[0]
        return program.load(name, Path(path))
    name = build.first_working().toolchain.name
    options.say(f"building for objects of {in_words(sizes)} bytes with {name}")
    arguments = [
        f"-DPOOLED_BENCH_WORKLOADS={WORKLOAD}",
        f"-DPOOLED_BENCH_SHAPE_BYTES={','.join(map(str, sizes))}",
        f"-DPOOLED_BENCH_SHAPE_PATTERN={pattern}",
    ]
    return build.alone(name, build.BUILDS / f"advise-{name}", TARGET, arguments)


def shape_cells(
    bench: program.Program, libraries: list[mallocs.Malloc], sizes: list[int], threads: int, live: int, pattern: Pattern
) -> list[Cell]:
    """The standard's pointers on every malloc; ours, with pages of its own, on one."""
    if WORKLOAD not in bench.workloads:
        raise BadInput(f"{bench.path} was not built for one size: it has no workload '{WORKLOAD}'")
    # A mix has no payload of its own: the executable is compiled for it.
    point = {"payload": sizes[0] if len(sizes) == 1 else None, "threads": threads, "live": live}
    return trial.cells_of(bench, WORKLOAD, str(pattern), libraries, STANDARD, **point)


def advise(
    size: option(str, "Size of an object (sizeof), or several: 48,256,1500.", metavar="BYTES"),
    threads: option(int, "Threads that create and drop at the same time.", metavar="N", min=1, max=MOST_THREADS),
    live: options.LiveOption,
    pattern: option(Pattern, "What the threads do with them; see below."),
    samples: options.LeastOption = 5,
    budget: options.BudgetOption = "40s",
    output: options.OutputOption = None,
    seed: options.SeedOption = SEED,
    bins: options.BinOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure your own shape, and say which handle and pool to take.

    Builds the benchmark for objects of exactly these sizes, measures them as std::make_shared, std::make_unique and
    each of pooled's handles, on every malloc there is, and says what is worth taking and how much it gains.
    """
    sizes = sizes_of(size)
    check(sizes, threads, live, pattern)
    trial.check_new(output)
    bench = built(sizes, pattern, bins)
    libraries, _ = mallocs.find()
    cells = shape_cells(bench, libraries, sizes, threads, live, pattern)
    effort = {"run_seconds": TARGET_SECONDS, "samples": samples, "budget": budget, "seed": seed}
    results = trial.measured("advise", cells, bench, libraries, output, **effort)
    title = f"{live:,} objects of {in_words(sizes)} bytes, {threads} thread{'s' if threads != 1 else ''}, {pattern}"
    _tell(results, trial.origin_of(results, output), as_json, title)
    trial.end(results)


def _tell(results: Results, origin: str, as_json: bool, title: str) -> None:
    from poolbench.analysis import advice
    from poolbench.analysis.estimate import estimates

    estimated = estimates(results)
    options.begin(origin, as_json)
    if as_json:
        found = {"origin": origin, "shape": title, **trial.record(estimated), "further": advice.further(estimated)}
        typer.echo(json.dumps(found, indent=1))
        return
    trial.tell_advice(title, estimated)
    for line in advice.further(estimated):
        typer.echo(line)
