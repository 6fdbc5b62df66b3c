# SPDX-License-Identifier: BSL-1.0
"""One sample of a cell: the executable is run once, and what it says is checked before it is believed."""

import json
import math
import os
import signal
from dataclasses import dataclass
from functools import cache

from poolbench.plan.cell import Cell
from poolbench.plan.program import Program, sha256_of
from poolbench.system import process
from poolbench.system.mallocs import DEFAULT, Malloc

# All that a process gets. The size of the environment moves the stack and with it some timings, and variables such as
# MALLOC_CONF or GLIBC_TUNABLES would change what is measured; so it is the same for everybody.
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH")
# What a result says beside figures of its own.
COMMON = {
    *("workload", "variant", "contender", "scale", "payload", "threads", "live", "step", "repeat", "operation", "ops"),
    *("seconds", "ns_per_op", "core_shared", "compiler", "stdlib", "optimisation", "flags"),
    *("malloc", "malloc_path", "peak_rss_bytes"),
}
OUTPUT_KEPT = 8000  # characters of each stream in a failure's record


@dataclass(frozen=True)
class Result:
    """Either the sample or the failure is there; both are parts of a record."""

    seconds: float
    sample: dict | None = None
    failure: dict | None = None


library_sha256 = cache(sha256_of)  # a library does not change while it is measured


def environment(malloc: Malloc) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**kept, "LC_ALL": "C"} | ({"LD_PRELOAD": malloc.path} if malloc.path else {})


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _why_ended_badly(ended: process.Ended, limit: float) -> tuple[str, str] | None:
    """(kind, reason), or None when the process ended well."""
    if ended.status is None:
        return "hang", f"no result within {limit:g} s"
    message = _last_line(ended.stderr)[:200]
    if ended.status < 0:
        name = next((each.name for each in signal.Signals if each == -ended.status), "unknown")
        return "crash", f"signal {-ended.status} ({name})" + (f": {message}" if message else "")
    if ended.status > 0:
        return "crash", f"exit status {ended.status}: {message or 'no message'}"
    return None


def _parsed(stdout: str) -> dict | None:
    try:
        found = json.loads(_last_line(stdout))
        measured = found["ns_per_op"], found["ops"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if all(isinstance(n, (int, float)) and math.isfinite(n) and n > 0 for n in measured) else None


def _why_not_asked_for(found: dict, cell: Cell, malloc: Malloc) -> str:
    """Empty when the process measured what it was asked to. The loader ignores a library that it cannot open, and
    the program would be measured under another's name."""
    path = str(found.get("malloc_path", ""))
    if found.get("malloc") == malloc.name:
        mapped = not malloc.path or not path or os.path.realpath(path) == os.path.realpath(malloc.path)
    else:  # the name on the command line may be the user's own
        mapped = malloc.name != DEFAULT and bool(path) and os.path.realpath(path) == os.path.realpath(malloc.path)
    if not mapped:
        there = "" if not malloc.path or os.path.exists(malloc.path) else ", which does not exist"
        asked = malloc.name + (f" ({malloc.path}{there})" if malloc.path else "")
        return f"ran on {found.get('malloc')}, not on {asked}"
    for name, value in cell.to_record().items():
        if name not in ("malloc", "toolchain") and name in found and found[name] != value:
            return f"measured {name} {found[name]}, not {value}"
    return ""


def take(cell: Cell, program: Program, malloc: Malloc, limit: float) -> Result:
    command = [str(program.path), *cell.arguments()]
    try:
        ended = process.run(command, environment(malloc), limit)
    except OSError as error:
        return Result(0.0, failure={"kind": "crash", "reason": f"cannot be run: {error}", "command": command})
    bad, found = _why_ended_badly(ended, limit), None
    if bad is None:
        found = _parsed(ended.stdout)
        if found is None:
            bad = "no result", "printed no result with a time and operations"
        elif why := _why_not_asked_for(found, cell, malloc):
            bad = "wrong", why
    if bad is not None:
        kind, reason = bad
        output = {"stdout": ended.stdout[-OUTPUT_KEPT:], "stderr": ended.stderr[-OUTPUT_KEPT:]}
        return Result(ended.seconds, failure={"kind": kind, "reason": reason, "command": command, **output})
    path = str(found.get("malloc_path", ""))
    library = library_sha256(path) if path else "unknown"
    return Result(
        ended.seconds,
        sample={
            **{name: found[name] for name in ("ns_per_op", "ops")},
            "figures": {k: v for k, v in found.items() if k not in COMMON and isinstance(v, (int, float))},
            "peak_rss_bytes": found.get("peak_rss_bytes"),
            "core_shared": found.get("core_shared"),
            "operation": found.get("operation", ""),
            "malloc": {"name": malloc.name, "version": malloc.version, "path": path, "sha256": library},
            **{name: found.get(name, getattr(program, name)) for name in ("compiler", "stdlib", "flags")},
        },
    )
