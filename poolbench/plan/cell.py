# SPDX-License-Identifier: BSL-1.0
"""A cell of the matrix: one thing to measure, each sample of it a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, fields

# In the order in which names and tables show them.
PARAMETERS = ("payload", "threads", "live", "step")
NAMES = ("workload", "variant", "contender", "malloc", "toolchain", "optimisation")
# At this scale and below data sets shrink as well as loops: k_tiny_scale of bench/support/measure.hpp.
CUT_SHORT = 0.001
UNITS = {"payload": "B payload", "threads": "threads", "live": "live", "step": "step"}


@dataclass(frozen=True)
class Cell:
    """What a record says was measured. Two cells that differ in nothing but the scale are still two: a burst that was
    cut short is another experiment."""

    workload: str
    variant: str
    contender: str
    malloc: str
    toolchain: str
    optimisation: str = "-O3"
    payload: int | None = None
    threads: int | None = None
    live: int | None = None
    step: int | None = None
    scale: float = 1.0

    @classmethod
    def from_record(cls, record: dict) -> Cell:
        """Raises KeyError or TypeError for what is no cell."""
        known = {field.name for field in fields(cls)}
        cell = cls(**{name: value for name, value in record.items() if name in known})
        if not all(isinstance(getattr(cell, name), str) for name in NAMES):
            raise TypeError("a cell's names are strings")
        numbers = [getattr(cell, name) for name in PARAMETERS]
        if not all(n is None or (type(n) is int and 0 <= n < 2**63) for n in numbers):
            raise TypeError("a cell's parameters are counts")
        if type(cell.scale) not in (int, float) or not 0 < cell.scale < 1e9:
            raise TypeError("a cell's scale is a number")
        return cell

    def to_record(self) -> dict:
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    @property
    def cut_short(self) -> bool:
        """Then it is another experiment than one that is not."""
        return self.scale <= CUT_SHORT

    def arguments(self) -> list[str]:
        """The command line of pooled-bench that measures this cell once."""
        words = [self.workload, "--variant", self.variant, "--contender", self.contender]
        words += ["--scale", repr(self.scale)]
        for name in PARAMETERS:
            if (value := getattr(self, name)) is not None:
                words += [f"--{name}", str(value)]
        return [*words, "--json"]

    def parameters(self) -> str:
        return ", ".join(
            f"{value:,} {UNITS[name] if value != 1 else UNITS[name].removesuffix('s')}"
            for name in PARAMETERS
            if (value := getattr(self, name)) is not None
        )

    def __str__(self) -> str:
        parts = [self.workload, self.variant, self.contender, f"on {self.malloc}", self.toolchain]
        if self.optimisation != "-O3":
            parts.append(self.optimisation)
        return " ".join(parts) + (f" ({self.parameters()})" if self.parameters() else "")
