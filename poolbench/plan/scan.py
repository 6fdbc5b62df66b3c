# SPDX-License-Identifier: BSL-1.0
"""Scans: the cells of a selection at several values of a parameter, `live=1e3..1e7` or `threads=1,2,4`."""

from __future__ import annotations

import dataclasses
import re

from poolbench.plan.cell import PARAMETERS, Cell
from poolbench.plan.selection import SelectionError

AXES = ("live", "threads", "payload", "step")
MOST = {"live": 1_000_000_000, "threads": 1024, "payload": 1 << 30, "step": 1 << 30}
MOST_POINTS = 100
WIDE = 100  # the last over the first from which on a range is of decades


def _number(word: str, axis: str) -> int:
    if not re.fullmatch(r"\d{1,10}(e\d{1,2})?", word):
        raise SelectionError(f"--scan {axis}: '{word}' is no number; say 1000 or 1e3")
    value = int(word.partition("e")[0]) * 10 ** int(word.partition("e")[2] or 0)
    if not 1 <= value <= MOST[axis]:
        raise SelectionError(f"--scan {axis}: {word} is not from 1 to {MOST[axis]:,}")
    return value


def _between(first: int, last: int) -> list[int]:
    """Both ends, and between them 1, 3, 10, 30 ... times the first of a wide range, 1, 2, 4 ... times it of another."""
    factors = [10**i * j for i in range(12) for j in (1, 3)] if last >= WIDE * first else [2**i for i in range(8)]
    return sorted({*(first * factor for factor in factors if first * factor < last), last})


def parse(word: str) -> tuple[str, list[int]]:
    """(axis, values in order)."""
    axis, separator, text = word.partition("=")
    if axis not in AXES or not separator:
        raise SelectionError(
            f"--scan takes one of {', '.join(AXES)}, as in live=1e3..1e7 or threads=1,2,4; not '{word}'"
        )
    first, dots, last = text.partition("..")
    if dots:
        low, high = _number(first, axis), _number(last, axis)
        if low >= high:
            raise SelectionError(f"--scan {word}: {first} is not less than {last}")
        return axis, _between(low, high)
    return axis, sorted({_number(each, axis) for each in text.split(",")})


def parse_all(words: list[str]) -> dict[str, list[int]]:
    axes: dict[str, list[int]] = {}
    for word in words:
        axis, values = parse(word)
        if axis in axes:
            raise SelectionError(f"--scan {axis} is given twice; a list may have several values: {axis}=1,2,4")
        axes[axis] = values
    return axes


def _fixed(cell: Cell, axes: dict[str, list[int]]) -> Cell:
    """What tells a curve from another."""
    return dataclasses.replace(cell, scale=1.0, **dict.fromkeys(axes))


def scanned(cells: list[Cell], axes: dict[str, list[int]], profile: str) -> list[Cell]:
    """Of each curve one axis at a time, the others at the value that the profile names first for it. A curve is of one
    scale, the least that the profile has for it: along it nothing else may change."""
    curves: dict[Cell, list[Cell]] = {}
    for cell in cells:
        if all(getattr(cell, axis) is not None for axis in axes):
            curves.setdefault(_fixed(cell, axes), []).append(cell)
    if not curves:
        raise SelectionError(f"nothing that was chosen of the profile {profile} has {' and '.join(axes)} to scan")
    found: dict[Cell, None] = {}
    for members in curves.values():
        scale = min(cell.scale for cell in members)
        for axis, values in axes.items():
            for value in values:
                found[dataclasses.replace(members[0], scale=scale, **{axis: value})] = None
    if len({tuple(getattr(cell, name) for name in PARAMETERS) for cell in found}) > MOST_POINTS * len(axes):
        raise SelectionError(f"that are more than {MOST_POINTS} points; choose workloads, or a shorter range")
    return list(found)


def check_payloads(cells: list[Cell], payloads: dict[str, list[int]]) -> None:
    """`payloads`: a workload's sizes of objects, for which it is compiled. A range has others between its ends."""
    for cell in cells:
        there = payloads.get(cell.workload, [])
        if cell.payload is not None and there and cell.payload not in there:
            sizes = ",".join(map(str, there))
            raise SelectionError(
                f"--scan payload: {cell.workload} is compiled for objects of {sizes} bytes, not {cell.payload}: say "
                f"payload={sizes}; poolbench advise --size measures any"
            )
