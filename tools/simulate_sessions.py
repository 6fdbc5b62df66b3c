#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""How often `poolbench compare` is right, in simulated sessions whose truth is known:

    tools/simulate_sessions.py RESULTS.json [PAIRS]

Writes, of so many pairs (default 2,000; a tenth of that for whole runs of --bin), the share in which a regression is
flagged. poolbench/tests/sessions.py says what is simulated, and the tests repeat it with a few pairs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from poolbench.tests.sessions import World, flagged, interleaved  # noqa: E402

SLOWER = ("pooled", "pooled_instance")


def main(path: Path, pairs: int = 2000) -> None:
    rows = []

    def add(what: str, share: float, count: int) -> None:
        rows.append({"what": what, "pairs": count, "flagged": share})
        print(f"{what}: {share:.1%} of {count}", flush=True)
        path.write_text(json.dumps({"above": 0.05, "rows": rows}, indent=1) + "\n")

    for drift in (0.05, 0.30):
        add(f"two files, drift {drift:.0%}, unchanged", flagged(World(drift), pairs), pairs)
        for slower in SLOWER:
            share = flagged(World(drift), pairs // 4, slower, 1.1)
            add(f"two files, drift {drift:.0%}, {slower} 10% slower", share, pairs // 4)
    uneven = World(0.30, of_contenders=0.1)
    what = "two files, drift 30%, a tenth of it uneven among contenders"
    add(f"{what}, unchanged", flagged(uneven, pairs), pairs)
    add(f"{what}, pooled 10% slower", flagged(uneven, pairs // 4, "pooled", 1.1), pairs // 4)
    for run in (0.02, 0.05):
        add(f"--bin, runs vary by {run:.0%}, unchanged", interleaved(run, pairs // 10), pairs // 10)
        share = interleaved(run, pairs // 20, "pooled", 1.1)
        add(f"--bin, runs vary by {run:.0%}, pooled 10% slower", share, pairs // 20)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
