# SPDX-License-Identifier: BSL-1.0
"""From descriptions and executables to the cells of a profile."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from poolbench.plan.cell import Cell
from poolbench.plan.description import ALL, MAIN_TOOLCHAIN, Description, Part, default
from poolbench.plan.program import Program, Workload
from poolbench.plan.selection import Selection

SMOKE_SCALE = 0.0001
MEASURED = ("-O0", "-O3")  # an executable of another kind (debug, sanitizer) is for its arithmetic only


def _wanted(asked: list[str] | str, there: Iterable[str]) -> list[str]:
    return [name for name in there if asked == ALL or name in asked]


def _points(part: Part, workload: Workload, variant: str) -> Iterator[dict[str, int | None]]:
    """The parameter combinations of a part. What it leaves open is the workload's default; all steps, for they are
    a curve."""
    payload = part.payload or workload.payloads[:1] or [None]
    threads = part.threads or ([workload.default_threads] if workload.default_threads else [None])
    live = part.live or [workload.of_variant(workload.live, variant, None)]
    step = part.step or workload.of_variant(workload.steps, variant, []) or [None]
    for values in product(payload, threads, live, step):
        yield dict(zip(("payload", "threads", "live", "step"), values, strict=True))


def _part(part: Part, program: Program, workload: Workload, mallocs: list[str], scale: float) -> Iterator[Cell]:
    for variant in _wanted(part.variant, workload.contenders):
        points = list(_points(part, workload, variant))
        for contender in _wanted(part.contender, workload.contenders[variant]):
            if contender in part.excluded:
                continue
            for point, malloc in product(points, _wanted(part.malloc, mallocs)):
                built = (program.toolchain, program.optimisation)
                yield Cell(workload.name, variant, contender, malloc, *built, **point, scale=scale)


def wanted_units(
    profile: str, descriptions: dict[str, Description], selection: Selection, toolchain: str, main: str
) -> list[str]:
    """ "workload/contender" of all that the profile measures with the toolchain; "workload/.*" for all contenders."""
    found: dict[str, None] = {}
    for name, description in descriptions.items():
        if not selection.takes("workload", name):
            continue
        for part in description.cells:
            if not _compiled_by(part, toolchain, main) or (profile != "smoke" and getattr(part, profile) is None):
                continue
            every = profile == "smoke" or part.contender == ALL
            found |= dict.fromkeys(f"{name}/{contender}" for contender in ([".*"] if every else part.contender))
    return [unit for unit in found if every_of(unit) not in found or unit == every_of(unit)]


def every_of(unit: str) -> str:
    return unit.partition("/")[0] + "/.*"


def _compiled_by(part: Part, toolchain: str, main: str) -> bool:
    return part.toolchain == ALL or toolchain in [main if name == MAIN_TOOLCHAIN else name for name in part.toolchain]


def cells_of(
    profile: str, programs: list[Program], mallocs: list[str], descriptions: dict[str, Description]
) -> list[Cell]:
    """All cells of a profile, each once. The first toolchain stands in where GCC is not installed."""
    built = [program.toolchain for program in programs]
    main = MAIN_TOOLCHAIN if MAIN_TOOLCHAIN in built or not built else built[0]
    found: dict[Cell, Cell] = {}
    for program in programs:
        for workload in program.workloads.values():
            if profile == "smoke":
                part = Part(malloc=ALL, payload=workload.payloads or None)
                cells = _part(part, program, workload, mallocs, SMOKE_SCALE)
                found.update((replace(cell, scale=1.0), cell) for cell in cells)
                continue
            if program.optimisation not in MEASURED:
                continue
            description = descriptions.get(workload.name) or default(workload.name)
            for part in description.cells:
                scale = getattr(part, profile)
                if scale is None or program.optimisation not in part.optimisation:
                    continue
                if not _compiled_by(part, program.toolchain, main):
                    continue
                for cell in _part(part, program, workload, mallocs, scale):
                    found.setdefault(replace(cell, scale=1.0), cell)
    return list(found.values())
