# SPDX-License-Identifier: BSL-1.0
"""poolbench doctor: what there is to measure with, and how to get what is missing."""

import json
import shutil
import subprocess

import typer

from poolbench import where
from poolbench.options import JsonOption
from poolbench.system import hardware, mallocs, toolchains

EPILOG = """\b
Examples:
  poolbench doctor
  poolbench doctor --json | jq .missing
"""


def _perf() -> str:
    """Whether events of the processor can be counted, which virtual machines and containers often refuse."""
    if not shutil.which("perf"):
        return "is not installed (Debian: linux-perf)"
    command = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    counted = done.returncode == 0 and done.stderr.strip()[:1].isdigit()
    return "works" if counted else "counts no instructions here: the machine or the kernel does not allow it"


def examine() -> dict:
    """Everything, as --json prints it."""
    probed, (found, absent) = list(map(toolchains.probe, toolchains.TOOLCHAINS)), mallocs.find()
    ours = mallocs.OURS
    built = [mallocs.Malloc(ours, str(path), "this library") for path in where.builds().glob(f"*/lib{ours}.so")]
    perf = _perf()
    return {
        "compilers": [
            {"toolchain": p.toolchain.name, "compiler": p.compiler, "stdlib": p.stdlib, "why_absent": p.why_absent}
            for p in probed
        ],
        "mallocs": [{"name": m.name, "version": m.version, "path": m.path or "the C library's"} for m in found + built],
        "pinned": mallocs.pinned(),
        "machine": hardware.describe(),
        "perf": perf,
        "busy_share": round(hardware.busy_share(), 3),
        "missing": [*filter(None, (p.why_absent for p in probed)), *absent.values()]
        + ([f"perf {perf}"] if perf != "works" else []),
    }  # fmt: skip


def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine has to measure with, and what is missing.

    Compilers, mallocs with version and path, processor, memory, huge pages, perf.
    """
    from poolbench.report.page import in_words

    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    rest = {"perf": found["perf"], "busy with other work": f"{found['busy_share']:.0%} of all processors"}
    for heading, rows in (
        ("Compilers", {c["toolchain"]: f"{c['compiler']}; {c['stdlib']}" for c in found["compilers"] if c["stdlib"]}),
        ("Mallocs", {m["name"]: f"{m['version']}  {m['path']}" for m in found["mallocs"]}),
        ("Versions that tools/mallocs.toml pins", found["pinned"]),
        ("Machine", found["machine"] | rest),
    ):
        lines = (f"  {name.replace('_', ' '):20} {in_words(rows[name])}" for name in rows)
        typer.echo("\n".join([heading, *lines, ""]))
    for why in found["missing"] or ["nothing"]:
        typer.echo(f"Missing: {why}")
    if found["missing"] and where.in_checkout():
        typer.echo("`tools/setup bench` installs what apt and cargo have of it.")
    if warning := hardware.busy_warning(found["busy_share"]):
        typer.echo(f"Warning: {warning}")
