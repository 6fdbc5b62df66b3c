# SPDX-License-Identifier: BSL-1.0
"""Building the benchmark with the toolchains there are, as far as it is not built yet.

A build directory that `make test` configured is taken as it is; a new one leaves the tests out, so that measuring needs
no package that only they use. The presets of Clang build a few workloads only: what else is wanted is added.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from poolbench import where
from poolbench.plan.description import ALL, MAIN_TOOLCHAIN
from poolbench.plan.program import Program, load_with_siblings
from poolbench.system.process import end_group
from poolbench.system.toolchains import TOOLCHAINS, Probed, Toolchain, probe

ROOT = where.sources()
BUILDS = where.builds()
QUICKLY = "bench-smoke"  # the preset, of the main toolchain alone, for runs that measure nothing
NO_TESTS = ("-DPOOLED_BUILD_TESTS=OFF", "-DPOOLED_BUILD_EXAMPLES=OFF", "-DPOOLED_BENCH_SOAK=OFF")


class BuildFailed(RuntimeError):
    """What failed; the compiler's own words have been shown."""


def first_working(among: Iterable[Toolchain] = TOOLCHAINS) -> Probed:
    """Raises BuildFailed where there is none."""
    absent = []
    for each in among:
        found = probe(each)
        if found.works:
            return found
        absent.append(found.why_absent)
    raise BuildFailed(f"no toolchain works: {'; '.join(absent)}")


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
        raise BuildFailed(f"{' '.join(command)}: failed")


def built_workloads(build_dir: Path) -> list[str] | None:
    """What the directory is configured to build; empty: all; None: it is not configured."""
    try:
        cache = (build_dir / "CMakeCache.txt").read_text()
    except OSError:
        return None
    found = re.search(r"^POOLED_BENCH_WORKLOADS:\w+=(.*)$", cache, re.MULTILINE)
    return [name for name in found.group(1).split("|") if name] if found else []


def configure_arguments(build_dir: Path, wanted: list[str], preset: str) -> list[str] | None:
    """The command that configures the directory, or None when it builds all that is wanted."""
    if not (build_dir / "build.ninja").is_file():
        return ["cmake", "--preset", preset, "-B", str(build_dir), *NO_TESTS, *_workloads(wanted)]
    there = built_workloads(build_dir)
    if not there or set(wanted) <= set(there):
        return None
    return ["cmake", str(build_dir), *_workloads(sorted({*there, *wanted}))]


def _workloads(wanted: list[str]) -> list[str]:
    return [f"-DPOOLED_BENCH_WORKLOADS={'|'.join(wanted)}"] if wanted else []


def ensure(
    probed: list[Probed],
    wanted: dict[str, list[str]],
    main: str,
    say: Callable[[str], None],
    root: Path = ROOT,
    some: bool = False,
    quickly: bool = False,
) -> list[Program]:
    """Builds with each toolchain that works. `wanted`: toolchain or "all" -> workloads; the main one builds all there
    are, unless only some are asked for. `quickly`: for the arithmetic, not for speed. A toolchain that works and
    cannot build is an error."""
    programs = []
    for each in probed:
        name = each.toolchain.name
        workloads = [*wanted.get(ALL, []), *wanted.get(name, [])] if name != main or some else []
        if name != main and not workloads:
            continue
        preset = QUICKLY if quickly and name == MAIN_TOOLCHAIN else name
        build_dir = _directory(root, preset)
        _build(build_dir, configure_arguments(build_dir, workloads, preset), name, say, root)
        programs += load_with_siblings(name, build_dir / "bench" / "pooled-bench")
    return programs


def only(each: Probed, workloads: list[str], contenders: list[str], say: Callable[[str], None], root: Path) -> Path:
    """The executable of a checkout with these alone, in a directory that is kept for it. A checkout of an older version
    may build all contenders of the workloads."""
    name = each.toolchain.name
    build_dir = _directory(root, f"compare-{name}")
    preset = [] if (build_dir / "build.ninja").is_file() else ["--preset", name]
    named = [f"-DPOOLED_BENCH_WORKLOADS={'|'.join(workloads)}", f"-DPOOLED_BENCH_CONTENDERS={'|'.join(contenders)}"]
    _build(build_dir, ["cmake", *preset, "-B", str(build_dir), *NO_TESTS, *named], name, say, root)
    return build_dir / "bench" / "pooled-bench"


def _directory(root: Path, name: str) -> Path:
    """Another checkout keeps its builds to itself."""
    return (BUILDS if root == ROOT else root / "build") / name


def _build(build_dir: Path, command: list[str] | None, name: str, say: Callable[[str], None], root: Path) -> None:
    if command is not None:
        configure(command, root)
        say(f"building with {name}, which takes minutes")
    if not run(["cmake", "--build", str(build_dir), "--target", "bench/all"], root):
        raise BuildFailed(f"{name}: the build failed")
