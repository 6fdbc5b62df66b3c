# SPDX-License-Identifier: BSL-1.0
"""One run of each cell that is not counted: what it takes, so that a forecast can be made before anything is."""

from __future__ import annotations

from poolbench.measure.progress import Progress
from poolbench.measure.sample import take
from poolbench.plan.cell import Cell
from poolbench.plan.program import Program
from poolbench.system.mallocs import Malloc


def seconds_of(cells: list[Cell], bench: Program, mallocs: list[Malloc], limit: float, shown: Progress) -> dict:
    """Cell -> seconds of its process; those that fail are left out."""
    libraries = {malloc.name: malloc for malloc in mallocs}
    found: dict[Cell, float] = {}
    try:
        for number, cell in enumerate(cells):
            shown.show(number, len(cells), f"[trying: {number} of {len(cells)}] {cell}")
            result = take(cell, bench, libraries[cell.malloc], limit)
            if result.sample is not None:
                found[cell] = result.seconds
    finally:
        shown.close()
    return found
