# SPDX-License-Identifier: BSL-1.0
"""What is measured to compare two executables: our cells that the user selects, and a few controls.

A control cannot change, so its difference between the two executables shows how far the machine, and the addresses of
the code, move a figure. Six controls of a workload suffice, and the quickest are as good as the others, which take nine
tenths of the time (E2 on glibc: 65 of 70 seconds a round).
"""

from __future__ import annotations

import dataclasses

from poolbench.plan.cell import Cell
from poolbench.plan.description import is_ours
from poolbench.plan.selection import Selection, SelectionError

A_WORKLOAD = 6  # controls
SECONDS = 0.2  # of a run: a shorter one is mostly noise, so its scale is raised; a control's is reduced to that
FEWEST = 0.1  # of the profile's scale
MOST = 10.0
PUBLISHED = 1.0  # the scale beyond which nothing is raised

# Those that are compiled for it, with the ones that are named: they need little more than the standard's headers.
COMPILED = ("make_shared", "new", "raw", "raw_new", "one_slot", "bump", "malloc_free", "unique_ptr_new", "make_unique",
            "thread_local_list", "two_rings", "free_list", "boost_original", "boost_intrusive_new")  # fmt: skip


def split(cells: list[Cell], chosen: Selection) -> tuple[list[Cell], list[Cell]]:
    """(what is asked for, what may serve as control). A control that is named is asked for; all others are taken
    wherever our cells are."""
    everywhere = dataclasses.replace(chosen, contender=())
    cells = everywhere.filter(cells)
    chosen.check("contender", (cell.contender for cell in cells))
    asked = [cell for cell in cells if chosen.takes("contender", cell.contender)]
    asked = [cell for cell in asked if chosen.contender or is_ours(cell.contender)]
    ours = {(cell.workload, cell.variant) for cell in asked if is_ours(cell.contender)}
    if not ours:
        raise SelectionError("nothing of pooled is among the cells chosen: only that can change between the two")
    others = [c for c in cells if c not in set(asked) and not is_ours(c.contender) and (c.workload, c.variant) in ours]
    return asked, others


def tried(cell: Cell) -> Cell:
    """The scale at which a control is run to see how long it takes."""
    return dataclasses.replace(cell, scale=float(f"{cell.scale * FEWEST:.2g}"))


def quickest(asked: list[Cell], took: dict[Cell, float]) -> list[Cell]:
    """As many of the tried controls as each workload lacks, of different contenders if it has them. `took`: seconds
    of each tried one that ran."""
    chosen: list[Cell] = []
    for workload in dict.fromkeys(cell.workload for cell in asked if is_ours(cell.contender)):
        wanted = A_WORKLOAD - sum(cell.workload == workload and not is_ours(cell.contender) for cell in asked)
        of_workload = sorted((cell for cell in took if cell.workload == workload), key=lambda cell: took[cell])
        first: dict[str, Cell] = {}
        for cell in of_workload:
            first.setdefault(cell.contender, cell)
        ranked = [*first.values(), *(cell for cell in of_workload if cell not in set(first.values()))]
        chosen += [_scaled(cell, took[cell]) for cell in ranked[: max(0, wanted)]]
    return chosen


def _scaled(cell: Cell, seconds: float) -> Cell:
    """From the scale tried towards that of the profile, as far as the time goes."""
    factor = min(1 / FEWEST, max(1.0, SECONDS / max(seconds, 1e-6)))
    return dataclasses.replace(cell, scale=float(f"{cell.scale * factor:.2g}"))


def long_enough(cell: Cell, seconds: float) -> Cell:
    """The cell at a scale at which its run takes SECONDS, if it is shorter."""
    factor = min(MOST, SECONDS / max(seconds, 1e-6), PUBLISHED / cell.scale)
    return dataclasses.replace(cell, scale=float(f"{cell.scale * factor:.2g}")) if factor > 1 else cell
