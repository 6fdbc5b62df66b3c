# SPDX-License-Identifier: BSL-1.0
"""What is done and what remains, on standard error: a bar of Rich's on a terminal, else a line now and then, because
Rich is silent there until the end.

The bar is drawn between two runs and by this thread: one of Rich's own would take processor time from what is measured,
and would make the fork of each run unsafe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich import progress
from rich.console import Console
from rich.markup import escape
from rich.table import Column

SECONDS_BETWEEN_LINES = 10
BAR = 12  # characters
SOON = 5  # seconds; a forecast is not more exact


def duration(seconds: float) -> str:
    """ "45 s", "3 min 05 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class Progress:
    """Nothing, where there is no stream."""

    def __init__(self, stream: TextIO | None = sys.stderr, clock: Callable[[], float] = time.monotonic):
        self._stream, self._clock = stream, clock
        self._last_line = clock()
        self._bar = self._task = None
        if stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb":
            self._bar = progress.Progress(
                progress.BarColumn(bar_width=BAR, table_column=Column(min_width=BAR, no_wrap=True)),
                progress.TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
                console=Console(file=stream), auto_refresh=False, transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._task = self._bar.add_task("", total=None)
            self._bar.start()

    def step(self, runs: int, total: int, left: float, failed: int, what: str) -> None:
        time_left = f"about {duration(left)} left" if left >= SOON else "nearly done"
        failures = f"{failed} failed, " if failed else ""
        self.show(runs, total, f"[{runs:,} of about {total:,} runs, {failures}{time_left}] {what}")

    def show(self, done: int, total: int, text: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=escape(text), completed=done, total=total, refresh=True)
        elif self._stream is not None and self._clock() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._stream.write(text + "\n")
            self._stream.flush()
            self._last_line = self._clock()

    def close(self) -> None:
        """The terminal is as it was before."""
        if self._bar is not None:
            self._bar.stop()
