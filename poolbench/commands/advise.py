# SPDX-License-Identifier: BSL-1.0
"""poolbench advise: what to take for objects of one's own size, number and threads."""

from __future__ import annotations

import dataclasses
import enum
import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from poolbench.measure.run_plan import RunPlan, carry_out
from poolbench.measure.sample import take
from poolbench.measure.stopping import Rule
from poolbench.options import INTERRUPTED, BinOption, complain, fail, origin, pairs, progress_stream, say, seconds
from poolbench.plan import program
from poolbench.plan.cell import Cell
from poolbench.results.read import Results
from poolbench.results.store import CannotWrite
from poolbench.system import build, hardware, mallocs, toolchains

EPILOG = """\b
Examples:
  poolbench advise --size 256 --threads 2 --live 100000 --pattern churn
  poolbench advise --size 1500 --threads 2 --live 4096 --pattern handoff
  poolbench advise --size 64 --threads 1 --live 1000000 --pattern burst --json
\b
Patterns:
  burst    objects are created, then all are dropped, and again
  churn    random objects are replaced by new ones
  handoff  half of the threads create, the other half drops what it is handed
"""

WORKLOAD = "shape"
TARGET = "pooled-bench-shape"
MOST_BYTES = 16 << 20
MOST_THREADS = 256
TARGET_SECONDS = 0.2  # of one timed run
FIRST_SCALE = 0.002
MOST_SCALE = 10.0
LIMIT = 120.0
OVERHEAD = 64  # bytes an object may take beside its own, on any contender
STANDARD = ("make_shared", "make_unique", "new")  # measured on every malloc


class Pattern(enum.StrEnum):
    burst = "burst"
    churn = "churn"
    handoff = "handoff"


def check(size: int, threads: int, live: int, pattern: Pattern) -> None:
    if pattern is Pattern.handoff and threads % 2:
        raise fail(f"a hand-off is between pairs of threads: --threads must be even, not {threads}")
    if live < threads:
        raise fail(f"--live {live} is less than an object for each of {threads} threads")
    memory = hardware.describe()["memory_mib"]
    wanted = live * (size + OVERHEAD) >> 20
    if memory and wanted > memory // 2:
        raise fail(f"{live:,} objects of {size:,} bytes take {wanted:,} MiB: more than half of this machine's memory")


def built(size: int, bins: list[str] | None) -> program.Program:
    """The benchmark compiled for objects of exactly this size."""
    if bins:
        name, path = pairs(bins, "--bin")[0]
        return program.load(name, Path(path))
    probed = next((p for p in map(toolchains.probe, toolchains.TOOLCHAINS) if p.works), None)
    if probed is None:
        raise build.BuildFailed("no toolchain is installed; poolbench doctor says more")
    name = probed.toolchain.name
    directory = build.BUILDS / f"advise-{name}"
    say(f"building for objects of {size:,} bytes with {name}")
    arguments = [*build.NO_TESTS, f"-DPOOLED_BENCH_WORKLOADS={WORKLOAD}", f"-DPOOLED_BENCH_SHAPE_BYTES={size}"]
    build.configure(["cmake", "--preset", name, "-B", str(directory), *arguments])
    if not build.run(["cmake", "--build", str(directory), "--target", TARGET]):
        raise build.BuildFailed(f"{name}: the build failed")
    return program.load(name, directory / "bench" / TARGET)


def shape_cells(
    bench: program.Program, libraries: list[mallocs.Malloc], size: int, threads: int, live: int, pattern: Pattern
) -> list[Cell]:
    """The standard's pointers on every malloc; ours, with pages of its own, on one."""
    if WORKLOAD not in bench.workloads:
        raise program.ProgramError(f"{bench.path} was not built for one size: it has no workload '{WORKLOAD}'")
    return [
        Cell(WORKLOAD, str(pattern), contender, malloc.name, bench.toolchain, bench.optimisation, size, threads, live)
        for contender in bench.workloads[WORKLOAD].contenders[str(pattern)]
        for malloc in (libraries if contender in STANDARD else libraries[:1])
    ]


def calibrated(cells: list[Cell], bench: program.Program, libraries: list[mallocs.Malloc]) -> list[Cell]:
    """The cells at the scale at which a run of the plainest takes a fifth of a second."""
    first = dataclasses.replace(cells[0], scale=FIRST_SCALE)
    found = take(first, bench, libraries[0], LIMIT)
    if found.sample is None:
        raise fail(f"{first} failed: {found.failure['reason']}", 1)
    timed = found.sample["ns_per_op"] * found.sample["ops"] / 1e9
    # Of a number of live objects, one round at least is run whatever the scale.
    scale = min(MOST_SCALE, max(FIRST_SCALE, FIRST_SCALE * TARGET_SECONDS / timed))
    return [dataclasses.replace(cell, scale=float(f"{scale:.2g}")) for cell in cells]


def advise(
    size: Annotated[int, typer.Option(min=1, max=MOST_BYTES, help="Bytes of an object (sizeof).")],
    threads: Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="Threads that create and drop at once.")],
    live: Annotated[int, typer.Option(min=1, max=1_000_000_000, help="Objects alive at once, of all threads.")],
    pattern: Annotated[Pattern, typer.Option(help="What is done with them; see below.")],
    samples: Annotated[int, typer.Option(min=2, max=1000, help="Process runs of each at least.")] = 5,
    budget: Annotated[float, typer.Option(parser=seconds, metavar="TIME", help="Time for more of them.")] = "40s",
    output: Annotated[Path | None, typer.Option(help="Keep the results in this new file.")] = None,
    bins: BinOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Measure your own shape, and say which handle and pool to take.

    Builds the benchmark for objects of exactly this size, measures them as std::make_shared, std::make_unique and each
    of pooled's handles, on every malloc there is, and says what is worth taking and how much it gains.
    """
    check(size, threads, live, pattern)
    if output is not None and output.exists():
        raise fail(f"{output} exists: name a new file")
    try:
        bench = built(size, bins)
        libraries, _ = mallocs.find()
        cells = calibrated(shape_cells(bench, libraries, size, threads, live, pattern), bench, libraries)
        rule = Rule(samples, max(samples, 15), 0.02, budget=budget)
        with tempfile.TemporaryDirectory(prefix="poolbench-") as directory:
            path = output or Path(directory) / "advise.jsonl"
            results = carry_out(RunPlan(path, "advise", cells, [bench], libraries, rule, LIMIT), say, progress_stream())
    except program.ProgramError as error:
        raise fail(str(error)) from error
    except (build.BuildFailed, CannotWrite) as error:
        raise fail(str(error), 1) from error
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    tell(results, as_json, f"{live:,} objects of {size:,} bytes, {threads} thread(s), {pattern}")
    for cell, failure in results.failed_cells().items():
        complain(f"FAILED: {cell}: {failure.get('reason')}")
    if results.failed_cells():
        raise typer.Exit(1)


def tell(results: Results, as_json: bool, title: str) -> None:
    from poolbench import tables
    from poolbench.analysis import advice
    from poolbench.analysis.estimate import estimates

    frame = estimates(results)
    choices = advice.advise(frame)
    if as_json:
        say(origin(results))
    else:
        typer.echo(origin(results) + "\n")
    if as_json:
        rows = [
            {"written": advice.WRITTEN.get(row["contender"], row["contender"]),
             **{name: row[name] for name in ("contender", "malloc", "median", "low", "high", "n")}}
            for row in frame.sort("median").iter_rows(named=True)
        ]  # fmt: skip
        told = [
            {
                **dataclasses.asdict(c),
                "written": c.written,
                "worth_it": c.worth_it,
                "malloc_is_enough": c.malloc_is_enough,
                "over_glibc_verdict": c.over_glibc.verdict,
                "over_best_verdict": c.over_best.verdict,
            }
            for c in choices
        ]
        typer.echo(json.dumps({"shape": title, "advice": told, "measured": rows}, indent=1))
        return
    tables.print_text(tables.advice_sheet(title, frame))
    for choice in choices:
        for line in advice.in_words(choice):
            typer.echo(line)
    if any(choice.worth_it for choice in choices):
        typer.echo("Call reserve<T>(n) first, and there is no system call in the loop.")


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(advise)
