# SPDX-License-Identifier: BSL-1.0
"""poolbench try: the standard patterns on your own type, or your own pattern."""

import json
from pathlib import Path

import typer

from poolbench import options
from poolbench.commands import trial
from poolbench.errors import BadInput
from poolbench.measure.run_plan import SEED
from poolbench.options import argument, option
from poolbench.plan import program
from poolbench.plan.cell import Cell
from poolbench.plan.selection import Selection
from poolbench.results.read import Results
from poolbench.system import build, mallocs, own, toolchains

EPILOG = """\b
Examples:
  poolbench try my_type.hpp --type my::Packet --args '1500'
  poolbench try my_type.hpp --type my::Packet --args '1500, "eth0"' --flags '-Iinclude -DNDEBUG' --source my_type.cpp
  poolbench try my_type.hpp --type my::Node --variant burst,list --live 1000000 --json
  poolbench try --new-pattern mypattern.hpp        a file to begin with, which says what to change
  poolbench try --pattern mypattern.hpp
\b
Patterns of a type (--variant chooses among them):
  create_drop  one object at a time
  burst        --live objects are created, then all are dropped, and again
  handoff      one thread creates, another drops each object once --live later ones have come
  replace      random ones of --live objects are replaced
  list         a list of --live nodes, each with an object in it, is built, walked, and dropped
\b
Exit status: 0 measured; 1 a run or the build failed; 2 the header, the type or the command line is wrong.
"""

TARGET_SECONDS = 0.1  # of one timed run
ON_EVERY_MALLOC = ("make_shared", "make_unique", "pooled", "pooled_unique")
ONE_AT_A_TIME = "create_drop"
PATTERNS = (ONE_AT_A_TIME, "burst", "handoff", "replace", "list")


def _cells(
    bench: program.Program, workload: str, libraries: list[mallocs.Malloc], live: int, threads: int, chosen: Selection
) -> list[Cell]:
    found = []
    for variant in bench.workloads[workload].contenders:
        pairs = max(2, threads + threads % 2) if variant == "handoff" else threads
        point = {"live": live, "threads": pairs} if workload == own.TYPE else {}
        found += trial.cells_of(bench, workload, variant, libraries, ON_EVERY_MALLOC, **point)
    return chosen.filter(found)


def _asked(
    header: Path | None, type_name: str | None, arguments: str, pattern: Path | None, flags: str, sources: list[Path]
) -> own.Own:
    """What the command line names; ends the command when that is nothing that can be measured."""
    if (header is None) == (pattern is None):
        raise BadInput("name a header and its --type, or a --pattern (poolbench try --help has examples)")
    for path in [*filter(None, (header, pattern)), *sources]:
        if not path.is_file():
            raise BadInput(f"there is no file {path}")
    if header is not None and not type_name:
        raise BadInput(f"which type of {header} is meant? say --type my::Packet")
    if pattern is not None and (type_name or arguments):
        raise BadInput("--type and --args go with a header; a --pattern makes its objects itself")
    compiled, linked = own.split_flags(flags, Path.cwd())
    files = [path.resolve() for path in sources]
    return own.Own((header or pattern).resolve(), type_name or "", arguments, compiled, linked, files)


def try_own(
    header: argument(Path | None, "The header that declares your type.", metavar="HEADER") = None,
    type_name: option(str | None, "The type, such as my::Packet.", "--type", metavar="TYPE") = None,
    arguments: option(str, "Arguments of its constructor, as C++ expressions.", "--args", metavar="ARGUMENTS") = "",
    pattern: option(Path | None, "Measure the pattern that this header defines.", "--pattern", metavar="FILE") = None,
    new_pattern: option(
        Path | None, "Write a template for a pattern, and exit.", "--new-pattern", metavar="FILE"
    ) = None,
    flags: option(str, "Compiler and linker options: '-Iinclude -DNAME -lfoo'.", metavar="OPTIONS") = "",
    sources: option(
        list[Path] | None, "A source file to build with it; may be repeated.", "--source", metavar="FILE"
    ) = None,
    variant: options.VariantOption = None,
    live: options.LiveOption = 10_000,
    threads: option(int, "Threads; a hand-off needs at least two.", metavar="N", min=1, max=256) = 1,
    toolchain: options.ToolchainOption = None,
    samples: options.LeastOption = 5,
    budget: options.BudgetOption = "30s",
    output: options.OutputOption = None,
    seed: options.SeedOption = SEED,
    as_json: options.JsonOption = False,
) -> None:
    """Measure a type or a pattern of your own.

    Builds your header with your flags, and measures what programs do with objects: std's and pooled's make_shared and
    make_unique on each installed malloc and on pooled-new (operator new on the pool), and pooled's other handles.
    """
    if new_pattern is not None:
        from poolbench.report import page

        trial.check_new(new_pattern)
        page.write(new_pattern, own.TEMPLATE.read_text())
        typer.echo(str(new_pattern))
        options.say(f"change it, then: poolbench try --pattern {new_pattern}")
        return
    trial.check_new(output)
    chosen = Selection.of(variant=variant, toolchain=toolchain)
    chosen.check("variant", PATTERNS)  # an error before anything that takes time
    chosen.check("toolchain", [each.name for each in toolchains.TOOLCHAINS])
    asked = _asked(header, type_name, arguments, pattern, flags, sources or [])
    among = [each for each in toolchains.TOOLCHAINS if chosen.takes("toolchain", each.name)]
    bench = own.built(asked, build.first_working(among), options.say)
    libraries = mallocs.find()[0] + mallocs.ours(bench.path)
    cells = _cells(bench, asked.workload, libraries, live, threads, chosen)
    effort = {"run_seconds": TARGET_SECONDS, "samples": samples, "budget": budget, "seed": seed}
    options.say(f"measuring {trial.expected(len(cells), samples, TARGET_SECONDS, budget)}")
    results = trial.measured("try", cells, bench, libraries, output, **effort)
    _tell(results, trial.origin_of(results, output), asked, live, as_json)
    trial.end(results)


def _tell(results: Results, origin: str, asked: own.Own, live: int, as_json: bool) -> None:
    from poolbench.analysis.estimate import estimates, matching

    estimated = estimates(results)
    # In the order of the command's help; the cells of a file are shuffled.
    measured = {cell.variant for cell in results.cells()}
    variants = sorted(measured, key=lambda name: PATTERNS.index(name) if name in PATTERNS else len(PATTERNS))
    parts = {variant: matching(estimated, {"variant": variant}) for variant in variants}
    what = f"{asked.type_name}({asked.arguments})" if asked.type_name else asked.header.name
    options.begin(origin, as_json)
    if as_json:
        told = {variant: trial.record(part, results.is_busy()) for variant, part in parts.items()}
        found = {"origin": origin, "what": what, "header": str(asked.header), "live": live, "patterns": told}
        typer.echo(json.dumps(found, indent=1))
        return
    operations = {cell.variant: sample.get("operation", "") for cell, sample in results.samples}
    for variant, part in parts.items():
        number = f": {live:,} live" if variant != ONE_AT_A_TIME else ""
        title = f"{what}, {variant}{number}" if asked.type_name else what
        trial.tell_advice(title, part, operations.get(variant, ""), results.is_busy())
        typer.echo("")
