# SPDX-License-Identifier: BSL-1.0
"""What is done and what remains, on standard error: a line now and then, between two runs."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

SECONDS_BETWEEN_LINES = 10


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

    def step(self, runs: int, left: float, failed: int, what: str) -> None:
        failures = f", {failed} failed" if failed else ""
        self.show(f"[{runs:,} runs{failures}, at most {duration(left)} left] {what}")

    def show(self, text: str) -> None:
        if self._stream is not None and self._clock() - self._last_line >= SECONDS_BETWEEN_LINES:
            print(text, file=self._stream, flush=True)
            self._last_line = self._clock()
