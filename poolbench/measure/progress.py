# SPDX-License-Identifier: BSL-1.0
"""What is done and what remains, on standard error: one rewritten line on a terminal, else a line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

SECONDS_BETWEEN_LINES = 10
SOON = 5  # seconds that no forecast tells apart


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
        self._live = stream is not None and stream.isatty()
        self._width = shutil.get_terminal_size((80, 24)).columns - 1

    def step(self, runs: int, total: int, left: float, failed: int, what: str) -> None:
        if self._stream is None:
            return
        time_left = f"about {duration(left)} left" if left >= SOON else "nearly done"
        text = f"[{runs:,} of about {total:,} runs, {f'{failed} failed, ' if failed else ''}{time_left}] {what}"
        if self._live:
            # Carriage return and padding instead of an escape sequence: nothing to strip from a log.
            self._stream.write("\r" + text[: self._width].ljust(self._width))
        elif self._clock() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._stream.write(text + "\n")
            self._last_line = self._clock()
        self._stream.flush()

    def close(self) -> None:
        if self._live:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
