# SPDX-License-Identifier: BSL-1.0
"""A built benchmark executable and what it says it can measure."""

import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from poolbench.errors import BadInput
from poolbench.plan.cell import Cell

LIST_SECONDS = 60
UNOPTIMISED_SUFFIX = "-O0"


@dataclass(frozen=True)
class Workload:
    """One entry of `pooled-bench --list --json`."""

    name: str
    contenders: dict[str, list[str]]  # variant -> contenders built
    not_built: dict[str, str]  # contender -> why
    payloads: list[int]
    default_threads: int
    live: list[int]  # one a variant, or none
    steps: list[list[int]]  # likewise

    def of_variant(self, lists: list, variant: str, otherwise):
        index = list(self.contenders).index(variant)
        return lists[index] if index < len(lists) else otherwise


@dataclass(frozen=True)
class Program:
    toolchain: str
    path: Path
    optimisation: str
    compiler: str
    stdlib: str
    flags: str
    sha256: str
    workloads: dict[str, Workload] = field(hash=False, compare=False)

    def has(self, cell: Cell) -> bool:
        workload = self.workloads.get(cell.workload)
        return workload is not None and cell.contender in workload.contenders.get(cell.variant, [])

    def describe(self) -> dict:
        names = ("toolchain", "optimisation", "compiler", "stdlib", "flags", "sha256")
        return {name: getattr(self, name) for name in names}


def sha256_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"


def _workload(listed: dict) -> Workload:
    not_built = {each["name"]: each["not_built"] for each in listed["contenders"] if "not_built" in each}
    built = [each for each in listed["contenders"] if each["name"] not in not_built]
    contenders = {name: [each["name"] for each in built if name in each["variants"]] for name in listed["variants"]}
    live, steps, threads = listed.get("live", []), listed.get("steps", []), listed.get("default_threads", 0)
    return Workload(listed["name"], contenders, not_built, listed.get("payloads", []), threads, live, steps)


def load(toolchain: str, path: Path) -> Program:
    """Asks the executable what it can measure."""
    try:
        done = subprocess.run(
            [str(path), "--list", "--json"], capture_output=True, text=True, check=True, timeout=LIST_SECONDS
        )
        listed = json.loads(done.stdout)
        built = [listed.get(name, "unknown") for name in ("compiler", "stdlib", "flags")]
        workloads = {workload["name"]: _workload(workload) for workload in listed["workloads"]}
        return Program(toolchain, path, listed["optimisation"], *built, sha256_of(str(path)), workloads)
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
        raise BadInput(f"{path} cannot be asked what it measures: {error}") from error


def load_with_siblings(toolchain: str, path: Path) -> list[Program]:
    """The executable, and the one without optimisation beside it."""
    candidates = [path, path.with_name(path.name + UNOPTIMISED_SUFFIX)]
    return [load(toolchain, p.resolve()) for p in candidates if p == path or p.is_file()]


def not_built(programs: Iterable[Program]) -> Iterator[str]:
    """One sentence an executable and reason."""
    for program in programs:
        by_reason: dict[str, set[str]] = {}
        for workload in program.workloads.values():
            for contender, why in workload.not_built.items():
                by_reason.setdefault(why, set()).add(contender)
        for why, contenders in by_reason.items():
            names = ", ".join(sorted(contenders))
            yield f"{program.toolchain} {program.optimisation}: {names}: not built: {why}"
