# SPDX-License-Identifier: BSL-1.0
"""Measures cells: one process a sample, all cells once and then again, so that a change of the machine's
mood meets every cell alike."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from poolbench.plan import Cell


@dataclass
class Outcome:
    """All samples of one cell, or why there is none."""

    cell: Cell
    samples: list[dict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of wall time, for planning the next round
    dropped: bool = False  # left out of later rounds for want of time

    def values(self, key: str) -> list[float]:
        return [s[key] for s in self.samples if isinstance(s.get(key), (int, float))]


def run_cell(cell: Cell, timeout: float) -> tuple[dict | None, str]:
    """One sample, or None and the reason. A malloc that is not the one asked for is a failure: the loader
    ignores an LD_PRELOAD path it cannot open and the program would be measured under another's name."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if cell.malloc.path:
        environment["LD_PRELOAD"] = cell.malloc.path
    try:
        done = subprocess.run(cell.command(), env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, f"no result within {timeout:.0f} s"
    except OSError as error:
        return None, f"cannot be run: {error}"
    if done.returncode != 0:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return None, f"{how}: {last[0]}"
    try:
        sample = json.loads(done.stdout.strip().splitlines()[-1])
        valid = sample["ns_per_op"] > 0 and sample["ops"] > 0
    except (ValueError, KeyError, IndexError, TypeError):
        return None, "printed no result"
    if not valid:
        return None, "printed a result without time or operations"
    if sample["malloc"] != cell.malloc.name:
        return None, f"ran on {sample['malloc']}, not on {cell.malloc.name}"
    return sample, ""


def choose_drops(outcomes: list[Outcome], time_left: float, rounds_left: int) -> list[Outcome]:
    """Which optional cells to leave out so that the rounds left fit: the slowest first, no more than needed."""
    excess = rounds_left * sum(o.seconds[-1] for o in outcomes if o.seconds) - time_left
    drops: list[Outcome] = []
    for outcome in sorted(outcomes, key=lambda o: -(o.seconds[-1] if o.seconds else 0)):
        if excess <= 0:
            break
        if outcome.cell.optional and outcome.seconds:
            drops.append(outcome)
            excess -= rounds_left * outcome.seconds[-1]
    return drops


class Progress:
    """What is done and what remains, on standard error: one rewritten line on a terminal, else a line now and then."""

    def __init__(self, total: int, stream: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic):
        self._total, self._stream, self._clock = total, stream, clock
        self._start = clock()
        self._done = 0
        self._last_line = self._start
        self._live = stream.isatty()
        self._width = shutil.get_terminal_size((80, 24)).columns - 1

    def reduce(self, runs: int) -> None:
        self._total -= runs

    def step(self, what: str) -> None:
        self._done += 1
        now = self._clock()
        left = (now - self._start) / self._done * (self._total - self._done)
        text = f"[{self._done}/{self._total}] about {left:.0f} s left: {what}"
        if self._live:
            # Carriage return and padding instead of an escape sequence: nothing to strip from a log.
            self._stream.write("\r" + text[: self._width].ljust(self._width))
        elif now - self._last_line >= 5 or self._done == self._total:
            self._stream.write(text + "\n")
            self._last_line = now
        self._stream.flush()

    def close(self) -> None:
        if self._live:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


def run_rounds(cells: list[Cell], rounds: int, timeout: float, budget: float, record: Callable[[dict], None],
               progress: Progress, outcomes: list[Outcome]) -> None:  # fmt: skip
    """Fills `outcomes`, which the caller keeps: an interrupted session still has what it measured."""
    start = time.monotonic()
    outcomes.extend(Outcome(cell) for cell in cells)
    for number in range(rounds):
        if number > 0:
            left = budget - (time.monotonic() - start)
            active = [o for o in outcomes if not o.dropped and not o.failures]
            for outcome in choose_drops(active, left, rounds - number):
                outcome.dropped = True
                progress.reduce(rounds - number)
        for outcome in outcomes:
            # A cell that failed once is reported; running it again would cost the others their time.
            if outcome.dropped or outcome.failures:
                if outcome.failures:
                    progress.reduce(1)
                continue
            began = time.monotonic()
            sample, failure = run_cell(outcome.cell, timeout)
            outcome.seconds.append(time.monotonic() - began)
            line = {"record": "sample", "round": number, "toolchain": outcome.cell.executable.toolchain,
                    "malloc_asked": outcome.cell.malloc.name, "malloc_version": outcome.cell.malloc.version,
                    "wall_seconds": round(outcome.seconds[-1], 3)}  # fmt: skip
            if sample is None:
                outcome.failures.append(failure)
                record({**line, "cell": outcome.cell.name(), "failure": failure})
            else:
                outcome.samples.append(sample)
                record({**line, **sample})
            progress.step(outcome.cell.name())
