# SPDX-License-Identifier: BSL-1.0
"""How many operations a run of something never measured before should have."""

import dataclasses

from poolbench.errors import Failed
from poolbench.measure.sample import take
from poolbench.plan.cell import Cell
from poolbench.plan.program import Program
from poolbench.system.mallocs import Malloc

FIRST_SCALE = 0.002
MOST_SCALE = 10.0
LEAST_SCALE = 1e-6
STEPS = 4  # from the first scale, each at most a hundredfold


def calibrated(cells: list[Cell], bench: Program, malloc: Malloc, seconds: float, limit: float) -> list[Cell]:
    """The cells at the scale at which a run of the first of each variant takes so long. Of a number of live objects one
    round at least is run, whatever the scale."""
    scales: dict[str, float] = {}
    for cell in cells:
        if cell.variant not in scales:
            scales[cell.variant] = _scale(cell, bench, malloc, seconds, limit)
    return [dataclasses.replace(cell, scale=scales[cell.variant]) for cell in cells]


def _scale(cell: Cell, bench: Program, malloc: Malloc, seconds: float, limit: float) -> float:
    scale = FIRST_SCALE
    for _ in range(STEPS):
        first = dataclasses.replace(cell, scale=scale)
        found = take(first, bench, malloc, limit)
        if found.sample is None:
            raise Failed(f"{first} failed: {found.failure['reason']}")
        timed = found.sample["ns_per_op"] * found.sample["ops"] / 1e9
        wanted = min(MOST_SCALE, max(LEAST_SCALE, scale * seconds / timed))
        if wanted <= 100 * scale:  # a run that is much shorter than wanted says little of a longer one
            break
        scale *= 100
    return float(f"{wanted:.2g}")
