# SPDX-License-Identifier: BSL-1.0
"""Contenders of one kind, together: thirteen ways to hold an int are four kinds of pointer."""

from __future__ import annotations

from dataclasses import dataclass

from poolbench.analysis.rows import Group, Row


@dataclass(frozen=True)
class Family:
    name: str  # empty: contenders that stand alone
    rows: list[Row]  # fastest first


def families(group: Group) -> list[Family]:
    """The group's rows by family, where it has some: of one toolchain, optimisation and malloc, in the order of their
    fastest member."""
    found: dict[tuple, list[Row]] = {}
    for row in group.rows:
        cell = row.cell
        name = group.description.family_of(cell.contender)
        alone = "" if name else cell.contender
        found.setdefault((name, cell.toolchain, cell.optimisation, cell.malloc, alone), []).append(row)
    return [Family(key[0] if len(rows) > 1 and all(map(_whole, rows)) else "", rows) for key, rows in found.items()]


def _whole(row: Row) -> bool:
    """Whether no contender of it failed: a failure must be visible."""
    return row.time is not None and not row.failure
