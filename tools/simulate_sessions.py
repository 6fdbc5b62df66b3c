#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""How often `poolbench compare` is right, in simulated sessions whose truth is known:

    tools/simulate_sessions.py RESULTS.json [PAIRS]

Writes, beside the answers that the file already has, of so many pairs (default 2,000; a tenth of that for whole runs of
--bin) the share in which a regression is flagged. poolbench/tests/sessions.py says what is simulated, and the tests
repeat it with a few pairs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from poolbench.tests.sessions import World, flagged, interleaved  # noqa: E402

SLOWER = ("pooled", "pooled_instance")


def questions(pairs: int) -> Iterator[tuple[str, int, Callable[[int], float]]]:
    """(what, how many pairs, what answers it)"""
    worlds = {f"drift {drift:.0%}": World(drift) for drift in (0.05, 0.30)}
    worlds["drift 30%, a tenth of it uneven among contenders"] = World(0.30, of_contenders=0.1)
    for name, world in worlds.items():
        yield f"two files, {name}, unchanged", pairs, lambda n, w=world: flagged(w, n)
        for slower in SLOWER:
            what = f"two files, {name}, {slower} 10% slower"
            yield what, pairs // 4, lambda n, w=world, c=slower: flagged(w, n, c, 1.1)
    for run in (0.02, 0.05):
        yield f"--bin, runs vary by {run:.0%}, unchanged", pairs // 10, lambda n, r=run: interleaved(r, n)
        what = f"--bin, runs vary by {run:.0%}, pooled 10% slower"
        yield what, pairs // 20, lambda n, r=run: interleaved(r, n, "pooled", 1.1)


def main(path: Path, pairs: int = 2000) -> None:
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    there = {row["what"] for row in rows}
    for what, count, answer in questions(pairs):
        if what in there:
            continue
        rows.append({"what": what, "pairs": count, "flagged": answer(count)})
        print(f"{what}: {rows[-1]['flagged']:.1%} of {count}", flush=True)
        path.write_text(json.dumps({"above": 0.05, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
