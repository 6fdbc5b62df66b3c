# SPDX-License-Identifier: BSL-1.0
"""Pinning: what is measured runs on chosen processors alone, where the system allows it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


class CannotPin(ValueError):
    """The list is wrong, or names processors that this process may not use."""


def parse(text: str) -> tuple[int, ...]:
    """ "2,3" or "0-3,8": processors that there are, in order."""
    found: set[int] = set()
    for word in text.split(","):
        range_of = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", word.strip())
        if not range_of:
            raise CannotPin(f"--pin takes processors, as in 2,3 or 0-3; not '{text}'")
        first = int(range_of[1])
        found.update(range(first, int(range_of[2] or first) + 1))
    allowed = os.sched_getaffinity(0)
    if missing := sorted(found - allowed):
        names, there = ", ".join(map(str, missing)), ", ".join(map(str, sorted(allowed)))
        raise CannotPin(f"--pin {text}: this process may not run on processor {names}; it may on {there}")
    if not found:
        raise CannotPin(f"--pin {text} names no processor")
    return tuple(sorted(found))


@contextmanager
def pinned(processors: tuple[int, ...]) -> Iterator[None]:
    """What is started meanwhile runs there alone, and so does this process; empty: wherever it may."""
    before = os.sched_getaffinity(0)
    try:
        if processors:
            os.sched_setaffinity(0, processors)
    except OSError as error:
        raise CannotPin(f"--pin: the system refused: {error.strerror}") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
