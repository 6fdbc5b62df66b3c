# SPDX-License-Identifier: BSL-1.0
"""Which part of the matrix the user wants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from poolbench.errors import BadInput
from poolbench.plan.cell import Cell

AXES = ("workload", "variant", "contender", "malloc", "toolchain")


@dataclass(frozen=True)
class Selection:
    """Empty tuples select everything. A workload may be named by its number alone: "e1"."""

    workload: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    contender: tuple[str, ...] = ()
    malloc: tuple[str, ...] = ()
    toolchain: tuple[str, ...] = ()

    @classmethod
    def of(cls, **words: Iterable[str] | None) -> Selection:
        """From repeated options, each of which may hold several names with commas between them."""
        split = {axis: [w for given in words.get(axis) or () for w in given.split(",") if w] for axis in AXES}
        return cls(**{axis: tuple(dict.fromkeys(found)) for axis, found in split.items()})

    def describe(self) -> dict[str, list[str]]:
        return {axis: sorted(values) for axis in AXES if (values := getattr(self, axis))}

    def takes(self, axis: str, name: str) -> bool:
        wanted = getattr(self, axis)
        return not wanted or any(matches(axis, word, name) for word in wanted)

    def check(self, axis: str, known: Iterable[str]) -> None:
        """Raises for a word that names nothing of `known`."""
        known = sorted(set(known))
        for word in getattr(self, axis):
            if not any(matches(axis, word, name) for name in known):
                raise BadInput(f"no {axis} '{word}'; there are: {', '.join(known) or 'none'}")

    def filter(self, cells: list[Cell]) -> list[Cell]:
        """The cells selected; raises when a word or the whole matches nothing."""
        for axis in AXES:
            self.check(axis, (getattr(cell, axis) for cell in cells))
        chosen = [cell for cell in cells if all(self.takes(axis, getattr(cell, axis)) for axis in AXES)]
        if cells and not chosen:
            words = "; ".join(f"{axis} {', '.join(getattr(self, axis))}" for axis in AXES if getattr(self, axis))
            raise BadInput(f"this profile has no cell of {words} at once")
        return chosen


def short(workload: str) -> str:
    """The fewest characters that name it on a command line: "e1" for e1_list_churn."""
    return workload.split("_")[0] if re.match(r"e\d", workload) else workload


def matches(axis: str, word: str, name: str) -> bool:
    return word == name or (axis == "workload" and "_" not in word and name.startswith(word + "_"))
