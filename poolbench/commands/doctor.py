# SPDX-License-Identifier: BSL-1.0
"""poolbench doctor: what there is to measure with, and how to get what is missing."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from poolbench import where
from poolbench.options import tell
from poolbench.system import counters, hardware, mallocs, toolchains

EPILOG = """\b
Examples:
  poolbench doctor
  poolbench doctor --json | jq .missing
"""


def examine() -> dict:
    """Everything, as --json prints it."""
    probed = toolchains.probe_all()
    found, absent = mallocs.find()
    machine = hardware.describe()
    missing = [p.why_absent for p in probed if not p.works] + list(absent.values())
    return {
        "compilers": [
            {
                "toolchain": p.toolchain.name,
                "compiler": p.compiler or None,
                "stdlib": p.stdlib or None,
                "status": p.why_absent or "works",
            }
            for p in probed
        ],
        "mallocs": [{"name": m.name, "version": m.version, "path": m.path or mallocs.c_library()} for m in found],
        "machine": machine,
        "counters": counters.describe(),
        "busy_share": round(hardware.busy_share(), 3),
        "missing": missing,
    }


def lines(found: dict):
    """The same for people: a heading, then name and value."""
    yield (
        "Compilers",
        [
            (c["toolchain"], f"{c['compiler']}; {c['stdlib']}" if c["status"] == "works" else f"MISSING: {c['status']}")
            for c in found["compilers"]
        ],
    )
    yield "Mallocs", [(m["name"], f"{m['version']}  {m['path']}") for m in found["mallocs"]]
    machine = found["machine"]
    pages = machine["huge_pages"]
    yield (
        "Machine",
        [
            ("processor", machine["cpu"]),
            ("cores", str(machine["cores"])),
            *[("cache", cache) for cache in machine["caches"]],
            ("memory", f"{machine['memory_mib']} MiB" if machine["memory_mib"] else "unknown"),
            (
                "huge pages",
                f"transparent: {pages['transparent']}, defrag: {pages['defrag']}, reserved: {pages['reserved']}",
            ),
            ("governor", machine["governor"]),
            ("system", f"{machine['kernel']}, {machine['libc']}" + (", virtual" if machine["virtual_machine"] else "")),
            ("busy", f"{found['busy_share']:.0%} of all processors with other work"),
        ],
    )
    yield "Counters", list(found["counters"].items())


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Show what this machine has, and what is missing.

    Compilers, standard libraries, mallocs, processor, caches, memory, huge pages, counters.
    """
    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for heading, rows in lines(found):
        typer.echo(heading)
        for name, value in rows:
            typer.echo(f"  {name:16}{value}")
        typer.echo("")
    if not found["missing"]:
        typer.echo("Nothing is missing.")
    for why in found["missing"]:
        tell(f"Missing: {why}")
    if found["missing"] and where.in_checkout():
        typer.echo("`tools/setup bench` installs all of them where apt may be used.")
    if warning := hardware.busy_warning(found["busy_share"]):
        tell(f"Warning: {warning}")


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(doctor)
