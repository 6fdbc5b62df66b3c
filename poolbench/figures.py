# SPDX-License-Identifier: BSL-1.0
"""The figures asked for (figures.toml), judged on the samples of a session."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from poolbench.plan import MAIN_TOOLCHAIN
from poolbench.runner import Outcome
from poolbench.stats import median, ratio

DATA = Path(__file__).with_name("figures.toml")


@dataclass(frozen=True)
class Verdict:
    work: str
    asked: str
    measured: float | None
    against: str
    met: bool | None  # None: not measured

    def word(self) -> str:
        return "not measured" if self.met is None else "yes" if self.met else "NO"


def load(path: Path = DATA) -> list[dict]:
    return tomllib.loads(path.read_text())["figure"]


def matching(outcomes: list[Outcome], wanted: dict, contender: str) -> list[Outcome]:
    """The outcomes of one contender in the cell a figure speaks of, on the main toolchain, all mallocs."""
    return [o for o in outcomes
            if o.cell.contender == contender
            and o.cell.executable.toolchain == MAIN_TOOLCHAIN and o.cell.executable.optimisation == "-O3"
            and all(getattr(o.cell, key) == value for key, value in wanted.items())]  # fmt: skip


def on_glibc(outcomes: list[Outcome], field: str) -> float | None:
    values = [v for o in outcomes if o.cell.malloc.name == "glibc" for v in o.values(field)]
    return median(values)


def best_malloc(outcomes: list[Outcome], wanted: dict, contender: str = "make_shared") -> tuple[float | None, str]:
    """The smallest median over the mallocs, and whose it is."""
    medians = [(m, o.cell.malloc.name) for o in matching(outcomes, wanted, contender)
               if (m := median(o.values("ns_per_op"))) is not None]  # fmt: skip
    return min(medians, default=(None, ""))


def judge(figure: dict, outcomes: list[Outcome]) -> Verdict:
    field = figure.get("field", "ns_per_op")
    ours = on_glibc(matching(outcomes, figure["cell"], figure["contender"]), field)
    match figure["against"]:
        case "nothing":
            measured, against = ours, field
        case "best_malloc":
            other, name = best_malloc(outcomes, figure["cell"])
            measured, against = ratio(ours, other), f"best malloc ({name or 'none measured'})"
        case contender:
            other = on_glibc(matching(outcomes, figure["cell"], contender), field)
            measured = ratio(other, ours) if figure.get("inverse") else ratio(ours, other)
            against = f"{contender} on glibc" if contender in ("make_shared", "new") else contender
    if "at_least" in figure:
        asked, met = f">= {figure['at_least']:g}", measured is not None and measured >= figure["at_least"]
    else:
        asked, met = f"<= {figure['at_most']:g}", measured is not None and measured <= figure["at_most"]
    return Verdict(figure["work"], asked, measured, against, None if measured is None else met)
