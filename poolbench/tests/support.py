# SPDX-License-Identifier: BSL-1.0
"""Stand-ins: a benchmark executable whose behaviour a test chooses, and outcomes without any process."""

import sys
from pathlib import Path

from poolbench.machine import Malloc
from poolbench.plan import Cell, Executable
from poolbench.runner import Outcome

GLIBC = Malloc("glibc")


def cell(contender="make_shared", malloc=GLIBC, workload="w", variant="v", toolchain="gcc", path="x", **parameters):
    return Cell(Executable(toolchain, Path(path)), workload, variant, contender, malloc, 1.0, **parameters)


def outcome(ns_per_op, *args, **parameters):
    """An outcome with these samples; further figures of a sample come as dictionaries."""
    samples = [ns if isinstance(ns, dict) else {"ns_per_op": ns, "operation": "one op"} for ns in ns_per_op]
    return Outcome(cell(*args, **parameters), samples)


def program(path: Path, body: str) -> Path:
    """An executable file that runs this Python code."""
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    return path
