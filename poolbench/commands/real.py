# SPDX-License-Identifier: BSL-1.0
"""poolbench real: what pooling gains in programs that others wrote."""

import json
from pathlib import Path

import typer

from poolbench import options, where
from poolbench.commands import trial
from poolbench.errors import BadInput, Failed
from poolbench.measure.run_plan import SEED, RunPlan, carry_out
from poolbench.measure.stopping import Rule
from poolbench.options import option
from poolbench.plan.cell import Cell
from poolbench.plan.selection import Selection
from poolbench.results import find
from poolbench.results.read import Results, read_measured
from poolbench.results.store import check_writable
from poolbench.system import build, mallocs
from poolbench.system import real as source

EPILOG = """\b
Examples:
  poolbench real                              every program, on every malloc
  poolbench real --programs yaml-cpp,lzip --runs 9 --output real.jsonl
  poolbench real --from real.jsonl            the tables of an earlier run, as Markdown
\b
A program is fetched as a Debian source package or a crate of a pinned version, edited in a few lines, built with and
without them,
and runs a fixed job, whose output must be the same. Packages that the builds need: tools/setup real.
\b
Exit status: 0 measured; 1 a program could not be built, a run failed or an output differs; 2 wrong command line.
"""

LIMIT = 60.0  # seconds that a run may take


def _built(chosen: Selection) -> tuple[list, dict, bool]:
    """The executables, what the session's record says of the programs, and whether all could be built."""
    known, programs, facts = source.load_all(), [], {}
    chosen.check("workload", known)
    wanted = [each for name, each in known.items() if chosen.takes("workload", name)]
    source.library(options.say)
    for each in wanted:
        try:
            executables, facts[each.name] = source.built(each, options.say)
        except Failed as error:
            options.complain(f"left out: {error}")
            continue
        programs += executables
    return programs, facts, len(facts) == len(wanted)


def _measured(chosen: Selection, runs: int, scale: float, output: Path, seed: int) -> tuple[Results, bool]:
    programs, facts, whole = _built(chosen)
    if not programs:
        raise Failed("no program could be built")
    libraries = mallocs.find()[0] + mallocs.ours(build.BUILDS / "gcc" / "bench" / "pooled-bench")
    cells = chosen.filter([
        Cell(name, "job", contender, malloc.name, each.toolchain, each.optimisation, scale=scale)
        for each in programs for name, workload in each.workloads.items() for contender in workload.contenders["job"]
        for malloc in libraries
    ])  # fmt: skip
    rule, about = Rule(runs, runs, 1.0), {"programs": facts}
    plan = RunPlan(output, "real", cells, programs, libraries, rule, LIMIT, about, seed=seed)
    return carry_out(plan, options.say, options.progress_stream()), whole


def real(
    program: option(list[str] | None, "Only these folders of bench/real.", "--programs", "-p", metavar="NAME") = None,
    variant: option(list[str] | None, "Only these, of as_is and a program.toml.", "--variant", metavar="NAME") = None,
    malloc: options.MallocOption = None,
    runs: option(int, "Process runs of each.", metavar="N", min=1, max=1000) = 5,
    scale: option(float, "Of a job's usual size.", metavar="SHARE", min=0.001, max=100) = 1.0,
    earlier: option(Path | None, "Measure nothing: show this file's results.", "--from", metavar="RESULTS") = None,
    report: option(Path | None, "Write the tables to this Markdown file.", "--report", metavar="FILE") = None,
    output: options.OutputOption = None,
    seed: options.SeedOption = SEED,
    as_json: options.JsonOption = False,
) -> None:
    """Measure programs that others wrote, as they are and with a pool.

    Processor time and peak memory of each, as it is and with a few lines edited, on each installed malloc and on
    pooled-new (operator new on the pool).
    """
    from poolbench.report import real as tables

    if not where.in_checkout():
        raise BadInput("bench/real is a part of the sources: run this in a checkout")
    if earlier:
        results, whole = read_measured(earlier), True
        if not all({tables.PEAK, "output"} <= sample.get("figures", {}).keys() for _, sample in results.samples):
            raise BadInput(f"{earlier} was not measured by poolbench real")
    else:
        if output is not None:  # before a build of minutes
            check_writable(output)
        output = output or find.new_path("real", find.DIRECTORY)
        chosen = Selection.of(workload=program, contender=variant, malloc=malloc)
        results, whole = _measured(chosen, runs, scale, output, seed)
    text = tables.page(results)
    if report:
        report.write_text(text, encoding="utf-8")
    if as_json:
        found = tables.figures(results).items()
        rows = [{"program": p, "variant": v, "malloc": m, **each} for (p, v, m), each in found]
        wrong = [str(cell) for cell in tables.different_output(results)]
        typer.echo(json.dumps({"file": str(results.path), "programs": tables.facts(results), "measured": rows,
                               "different_output": wrong}, indent=1))  # fmt: skip
    else:
        typer.echo(f"{text}\n{results.path}")
    for cell in tables.different_output(results):
        options.complain(f"FAILED: {cell}: its output is not that of the program as it is on glibc")
        whole = False
    trial.end(results)
    if not whole:
        raise typer.Exit(1)
