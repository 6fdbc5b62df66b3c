# SPDX-License-Identifier: BSL-1.0
"""The descriptions of the workloads, one TOML file each: what is measured in which profile, and what of
it the summary shows. A new workload needs such a file and nothing else; without one it is measured by default rules.

    title, question, source         words for the report
    limits = ["raw", ...]           contenders that only show how far one could get
    figures = { name = "heading" }  what a result tells beside its time; of a name that ends in "_worst", the largest of
                                    all processes is shown, of others the median
    measure = { variant = name }    the figure that a variant is about, where it is not ns_per_op
    base    = { variant = name }    the contender that ratios are taken against, where it is not make_shared
    [[cells]]     a part of the matrix: every combination of its lists. `quick` and `full` are its scale in that
                  profile; one not named leaves it out. A cell that an earlier part has named is not named again, so
                  special cases come first and `contender = "all"` last
    [[headlines]] a row of the summary: where to look, and which contender is the limit
"""

import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from poolbench.errors import BadInput

DIRECTORY = Path(__file__).resolve().parent.parent / "workloads"
ALL = "all"
TIME = "ns_per_op"
MAIN_TOOLCHAIN = "gcc"
STANDARD = "make_shared"  # what everything is compared with
STANDARDS = ("make_shared", "new")  # the ways to a std::shared_ptr without a pool

OURS_TOO = frozenset({"memorypool"})  # a contender that is this library under another's interface

Where = dict[str, Any]  # column -> value or list of values


def is_ours(contender: str) -> bool:
    """Whether a change of this library can change the contender's figures. All others are controls."""
    return contender.startswith("pooled") or contender in OURS_TOO


@dataclass(frozen=True)
class Part:
    """One [[cells]] entry."""

    variant: list[str] | str = ALL
    contender: list[str] | str = ALL
    malloc: list[str] | str = field(default_factory=lambda: ["glibc"])
    toolchain: list[str] | str = field(default_factory=lambda: [MAIN_TOOLCHAIN])
    optimisation: list[str] = field(default_factory=lambda: ["-O3"])
    payload: list[int] | None = None
    threads: list[int] | None = None
    live: list[int] | None = None
    step: list[int] | None = None
    quick: float | None = None
    full: float | None = None
    # `except` is a word of Python's.
    excluded: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Headline:
    work: str
    where: Where
    use: str = ""  # what a program does that has this work; works of one use stand together
    limit: str | None = None
    limit_is: str = ""
    measure: str = TIME


@dataclass(frozen=True)
class Description:
    name: str
    title: str
    question: str = ""
    source: str = ""
    limits: list[str] = field(default_factory=list)  # contenders that are no smart pointers
    figures: dict[str, str] = field(default_factory=dict)
    measure: dict[str, str] = field(default_factory=dict)
    base: dict[str, str] = field(default_factory=dict)
    cells: list[Part] = field(default_factory=list)
    headlines: list[Headline] = field(default_factory=list)

    def measure_of(self, variant: str) -> str:
        return self.measure.get(variant, TIME)

    def base_of(self, variant: str) -> str:
        return self.base.get(variant, STANDARD)


def _make(kind: type, table: dict, where: str) -> Any:
    table = {"excluded" if key == "except" else key: value for key, value in table.items()}
    known = {f.name for f in fields(kind)}
    if unknown := sorted(set(table) - known):
        raise BadInput(f"{where}: nothing is called {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
    try:
        return kind(**table)
    except TypeError as error:
        raise BadInput(f"{where}: {error}") from error


def read(path: Path) -> Description:
    table = tomllib.loads(path.read_text())
    where = path.name
    lists = {"cells": Part, "headlines": Headline}
    for key, kind in lists.items():
        table[key] = [_make(kind, entry, f"{where}, [[{key}]]") for entry in table.get(key, [])]
    return _make(Description, {"name": path.stem, **table}, where)


def order(name: str) -> tuple[int, str]:
    """What has no number first, then E2 before E10."""
    number = re.match(r"e(\d+)_", name)
    return (int(number.group(1)) if number else 0, name)


def load(directory: Path = DIRECTORY) -> dict[str, Description]:
    return {path.stem: read(path) for path in sorted(directory.glob("*.toml"), key=lambda path: order(path.stem))}


def default(name: str) -> Description:
    """For a workload without a description: everything on glibc, at a scale that should take seconds."""
    return Description(name=name, title=name, cells=[Part(quick=0.01, full=1.0)])
