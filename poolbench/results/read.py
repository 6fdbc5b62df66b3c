# SPDX-License-Identifier: BSL-1.0
"""Reading a results file, whatever state a killed run left it in."""

from __future__ import annotations

import json
import lzma
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from poolbench.errors import BadInput
from poolbench.plan.cell import Cell
from poolbench.results.record import SCHEMA

MACHINE = ("cpu", "cores", "memory_mib")  # by which files of one machine are known
COMPRESSED = ".xz"  # of a file that is read alone
BUSY = 0.1  # more than this share of all processors at work for others makes times worthless
MOVED = 2  # times the least that a word took to the other processor: a hypervisor has put them further apart
SHARED = 0.1  # of the moments before or after a sample: somebody else used the processor's core as well
ENOUGH = 3  # samples of a cell that are compared alone, without those of such a time: fewer have no interval


@dataclass
class Results:
    path: Path
    sessions: list[dict] = field(default_factory=list)
    samples: list[tuple[Cell, dict]] = field(default_factory=list)
    failures: list[tuple[Cell, dict]] = field(default_factory=list)
    finished: bool = False
    damaged: list[int] = field(default_factory=list)  # numbers of lines that are no records

    @property
    def session(self) -> dict:
        return self.sessions[0] if self.sessions else {}

    def cells(self) -> list[Cell]:
        """Each cell that has a sample or a failure, once."""
        return list(dict.fromkeys(cell for cell, _ in [*self.samples, *self.failures]))

    def only(self, kept: set[Cell]) -> Results:
        """The part of these cells."""
        samples, failures = ([each for each in of if each[0] in kept] for of in (self.samples, self.failures))
        return replace(self, samples=samples, failures=failures)

    def failed_cells(self) -> dict[Cell, dict]:
        """Why each failed cell failed last."""
        return dict(self.failures)

    @property
    def installed(self) -> list[str]:
        """The mallocs that the machine had, measured or not."""
        named = [m.get("name") for session in self.sessions for m in session.get("mallocs", []) if isinstance(m, dict)]
        return list(dict.fromkeys(str(name) for name in named if name))

    def machine_name(self) -> str:
        machine = self.session.get("machine", {})
        return f"{machine.get('cpu', 'unknown processor')}, {machine.get('cores', '?')} cores"

    def machine(self) -> tuple:
        """The same for all files of one machine."""
        recorded = self.session.get("machine", {})
        return tuple(str(recorded.get(key)) for key in MACHINE)

    def measured_on(self) -> str:
        """For instance "2026-11-22 19:32 UTC"."""
        time = str(self.session.get("time", ""))
        return f"{time[:10]} {time[11:16]} UTC" if len(time) >= 16 else "on an unknown date"

    def _busy_shares(self) -> list[float]:
        return [s["busy_share"] for s in self.sessions if is_figure(s.get("busy_share"))]

    def is_busy(self) -> bool:
        """Whether the machine had other work, as far as the sessions recorded it."""
        noted = any("busy" in str(note) for session in self.sessions for note in session.get("notes", []))
        return noted or any(share >= BUSY for share in self._busy_shares())

    def busy(self) -> str:
        """The same in words."""
        if self.is_busy():
            shares = self._busy_shares()
            most = f" ({max(shares):.0%} of its processors)" if shares else ""
            return f"BUSY with other work{most}: its times do not count"
        shares = [core_shared(sample) for _, sample in self.samples]
        shared = sum(share > SHARED for share in shares) / len(shares) if shares else 0.0
        others = f", others used its cores in {shared:.0%} of the runs" if shared >= SHARED else ""
        return f"quiet at the start{others}" if self.sessions else "whether it was busy is not known"

    def origin(self, here: dict | None = None, file: str = "") -> str:
        """File, machine, date, and whether the machine was busy; `here` is the machine that asks, `file` what to say in
        place of the name of a file that is not kept."""
        machine = self.session.get("machine", {})
        known = bool(machine) and here is not None
        another = known and any(machine.get(key) != here.get(key) for key in MACHINE)
        parts = [
            f"{file or self.path.name}: {self.machine_name()}" + (" (NOT this machine)" if another else ""),
            f"measured {self.measured_on()}",
            self.busy(),
            *([] if self.finished else ["UNFINISHED: its run was stopped, figures are missing"]),
        ]
        return "; ".join(parts)

    def warning(self) -> str:
        """About what had to be skipped, in words; empty when all is well."""
        if not self.damaged:
            return ""
        lines = ", ".join(str(number) for number in self.damaged[:5]) + (", ..." if len(self.damaged) > 5 else "")
        return f"{self.path}: {len(self.damaged)} line(s) are no records and were skipped (line {lines})"


def hand_over(sample: dict) -> float:
    """Nanoseconds that a word took from one of the two processors to the other; 0 where that is no part of the work."""
    return sample.get("figures", {}).get("hand_over_ns", 0.0)


def core_shared(sample: dict) -> float:
    """The share of the moments before and after it, the larger one, in which somebody else used the processor's core as
    well: another virtual machine, by simultaneous multithreading. No counter of the system shows that."""
    return sample.get("core_shared") or 0.0


def is_figure(value: object) -> bool:
    """Whether it is a finite number of usual size. JSON may hold 1e999, and integers that no float can represent."""
    return type(value) in (int, float) and -1e300 < value < 1e300  # false for NaN


def _valid_sample(record: dict) -> bool:
    time, figures, wall = record.get("ns_per_op"), record.get("figures", {}), record.get("wall_seconds", 0.0)
    return (
        is_figure(time) and time > 0 and is_figure(wall) and wall >= 0
        and isinstance(figures, dict) and all(isinstance(value, int | float) for value in figures.values())
        and isinstance(record.get("operation", ""), str)
        and (record.get("core_shared") is None or is_figure(record["core_shared"]))
    )  # fmt: skip


def _valid_session(record: dict) -> bool:
    programs = record.get("programs", [])
    return (
        isinstance(record.get("machine", {}), dict)
        and all(isinstance(each, list) for each in (record.get("notes", []), record.get("mallocs", []), programs))
        and all(isinstance(program, dict) and isinstance(program.get("sha256"), str) for program in programs)
    )


def _take(results: Results, record: dict) -> bool:
    """Files a record; False for what is none."""
    kind = record.get("record")
    if kind == "session" and _valid_session(record):
        results.sessions.append(record)
        results.finished = False
    elif kind == "finished":
        results.finished = True
    elif kind == "sample" and _valid_sample(record):
        results.samples.append((Cell.from_record(record["cell"]), record))
    elif kind == "failure":
        results.failures.append((Cell.from_record(record["cell"]), record))
    else:
        return False
    return True


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{path} is not a file")
        with lzma.open(path) if path.suffix == COMPRESSED else path.open("rb") as file:
            yield from enumerate(file, 1)
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read(path: Path) -> Results:
    """Skips lines that are no records (a run that was killed leaves half a line at the end), but refuses a schema
    that it does not know: a figure that has changed its meaning must not be shown under its old name."""
    results = Results(path)
    for number, line in _lines(path):
        try:
            record = json.loads(line)
            schema = record.get("schema")
            if isinstance(schema, int) and schema > SCHEMA:
                raise BadInput(f"{path} is of schema {schema}; this poolbench reads schema {SCHEMA}: update it")
            good = schema == SCHEMA and _take(results, record)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            good = False
        if not good:
            results.damaged.append(number)
    return results


def read_measured(path: Path) -> Results:
    """A file that holds at least one sample or failure."""
    results = read(path)
    if not results.samples and not results.failures:
        raise BadInput(f"{path} holds no results of schema {SCHEMA}")
    return results
