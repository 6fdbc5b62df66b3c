# SPDX-License-Identifier: BSL-1.0
"""Building the benchmark with the toolchains there are, as far as it is not built yet.

A build directory that `make test` configured is taken as it is; a new one leaves the tests out, so that measuring needs
no package that only they use, and builds what is measured alone. What else is wanted later is added.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from poolbench import where
from poolbench.errors import Failed
from poolbench.measure.progress import duration
from poolbench.plan.description import MAIN_TOOLCHAIN
from poolbench.plan.matrix import every_of
from poolbench.plan.program import Program, load, load_with_siblings
from poolbench.system.process import end_group
from poolbench.system.toolchains import TOOLCHAINS, Probed, Toolchain, probe

ROOT = where.sources()
BUILDS = where.builds()
QUICKLY = "bench-smoke"  # the preset, of the main toolchain alone, for runs that measure nothing
NO_TESTS = tuple(f"-DPOOLED_{name}=OFF" for name in ("BUILD_TESTS", "BUILD_POOLHEAP", "BUILD_EXAMPLES", "BENCH_SOAK"))
FEW_STEPS = 5
# Processor time of a step over that of toolchains.PROBE: 1.34 s over 0.36 s with GCC 12 on an AMD EPYC.
STEP_OF_PROBE = 3.7


def first_working(among: Iterable[Toolchain] = TOOLCHAINS) -> Probed:
    """Raises Failed where there is none."""
    absent = []
    for each in among:
        found = probe(each)
        if found.works:
            return found
        absent.append(found.why_absent)
    raise Failed(f"no toolchain works: {'; '.join(absent)}")


def run(command: list[str], root: Path = ROOT) -> bool:
    """Output belongs to standard error: standard output holds results alone."""
    process = subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)
    try:
        return process.wait() == 0
    finally:
        if process.poll() is None:  # interrupted: the build and its compilers with it
            end_group(process, signal.SIGTERM)
            process.wait()


def configure(command: list[str], root: Path = ROOT) -> None:
    """Says nothing unless it fails: forty lines of what was found are no news."""
    done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise Failed(f"{' '.join(command)}: failed")


def built_units(build_dir: Path) -> list[str]:
    """What the directory is configured to build, as wanted_units() says it; empty: all."""
    cache = (build_dir / "CMakeCache.txt").read_text()

    def listed(name: str) -> list[str]:
        found = re.search(rf"^POOLED_BENCH_{name}:\w+=(.*)$", cache, re.MULTILINE)
        return [each for each in found.group(1).split("|") if each] if found else []

    return listed("CONTENDERS") or [f"{workload}/.*" for workload in listed("WORKLOADS")]


def configure_arguments(build_dir: Path, wanted: list[str], preset: str) -> list[str] | None:
    """The command that configures the directory, or None when it builds all that is wanted; empty: everything."""
    if not (build_dir / "build.ninja").is_file():
        return ["cmake", "--preset", preset, "-B", str(build_dir), *NO_TESTS, *_named(wanted)]
    there = built_units(build_dir)
    if not there or (wanted and all({unit, every_of(unit)} & {*there} for unit in wanted)):
        return None
    return ["cmake", str(build_dir), *_named(sorted({*there, *wanted}) if wanted else [])]


def _named(units: Iterable[str], workloads: Iterable[str] | None = None) -> list[str]:
    workloads = dict.fromkeys(unit.partition("/")[0] for unit in units) if workloads is None else workloads
    return [f"-DPOOLED_BENCH_WORKLOADS={'|'.join(workloads)}", f"-DPOOLED_BENCH_CONTENDERS={'|'.join(units)}"]


def ensure(each: Probed, wanted: list[str], say: Callable[[str], None], quickly: bool = False) -> list[Program]:
    """Builds these units, if they are not built. `quickly`: for the arithmetic, not for speed. A toolchain that works
    and cannot build is an error."""
    name = each.toolchain.name
    preset = QUICKLY if quickly and name == MAIN_TOOLCHAIN else name
    build_dir = _directory(ROOT, preset)
    _build(build_dir, configure_arguments(build_dir, wanted, preset), each, say, ROOT)
    return load_with_siblings(name, build_dir / "bench" / "pooled-bench")


def only(each: Probed, workloads: list[str], contenders: list[str], say: Callable[[str], None], root: Path) -> Path:
    """The executable of a checkout with these alone, in a directory that is kept for it. A checkout of an older version
    may build all contenders of the workloads."""
    name = each.toolchain.name
    build_dir = _directory(root, f"compare-{name}")
    preset = [] if (build_dir / "build.ninja").is_file() else ["--preset", name]
    command = ["cmake", *preset, "-B", str(build_dir), *NO_TESTS, *_named(contenders, workloads)]
    _build(build_dir, command, each, say, root)
    return build_dir / "bench" / "pooled-bench"


def alone(each: Probed, directory: Path, target: str, arguments: Iterable[str], say: Callable[[str], None]) -> Program:
    """An executable of its own, in a directory that is kept for it."""
    name, build = each.toolchain.name, ["cmake", "--build", str(directory), "--target", target]
    configure(["cmake", "--preset", name, "-B", str(directory), *NO_TESTS, *arguments])
    _foretell(build, each, say)
    if not run(build):
        raise Failed(f"{name}: the build failed; the compiler's words are above")
    return load(name, directory / "bench" / target)


def _directory(root: Path, name: str) -> Path:
    """Another checkout keeps its builds to itself."""
    return (BUILDS if root == ROOT else root / "build") / name


def _foretell(build: list[str], each: Probed, say: Callable[[str], None], root: Path = ROOT) -> None:
    """How long it takes, unless that is nearly nothing."""
    planned = subprocess.run([*build, "--", "-n"], cwd=root, capture_output=True, text=True, check=False).stdout
    if (steps := planned.count("\n[")) > FEW_STEPS:
        seconds = steps * each.seconds * STEP_OF_PROBE / len(os.sched_getaffinity(0))
        say(f"building with {each.toolchain.name}: {steps} steps, about {duration(seconds)}")


def _build(build_dir: Path, command: list[str] | None, each: Probed, say: Callable[[str], None], root: Path) -> None:
    name, build = each.toolchain.name, ["cmake", "--build", str(build_dir), "--target", "bench/all"]
    if command is not None:
        configure(command, root)
    _foretell(build, each, say, root)
    if not run(build, root):
        raise Failed(f"{name}: the build failed")
