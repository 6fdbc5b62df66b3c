# SPDX-License-Identifier: BSL-1.0
"""How many runs it takes. Apart from `stats`, for it is asked before anything is measured and SciPy is slow to load."""

from __future__ import annotations

import math

ALPHA = 0.05


def samples_to_tell(cells: int) -> int:
    """How many runs a side the Mann-Whitney test needs before it could call one cell of so many different at all: with
    n a side its smallest p-value is 2 / C(2n, n), which Holm's correction multiplies by the number of cells."""
    n = 2
    while 2 / math.comb(2 * n, n) * max(1, cells) > ALPHA:
        n += 1
    return n
