# SPDX-License-Identifier: BSL-1.0
"""poolbench run: measures a profile, or what is missing of it."""

import enum
from pathlib import Path

import typer

from poolbench import options
from poolbench.commands import trial
from poolbench.errors import BadInput, Failed
from poolbench.measure.run_plan import SEED, RunPlan, carry_out
from poolbench.measure.stopping import Rule
from poolbench.options import option
from poolbench.plan import description, matrix, program
from poolbench.plan.cell import Cell
from poolbench.plan.selection import Selection
from poolbench.results import find
from poolbench.results.read import Results
from poolbench.results.store import check_writable
from poolbench.system import build, mallocs, toolchains

EPILOG = """\b
Examples:
  poolbench run                                    the quick profile; finishes a run that was stopped
  poolbench run --profile full -w e1,e2 -t gcc     two experiments as published, on every malloc
  poolbench run -w create_drop -c pooled,make_shared -m glibc --samples 20
  poolbench run --profile full --budget 2h --output full.jsonl
  poolbench run -w e5 --malloc snmalloc=/opt/lib/libsnmallocshim.so     another malloc beside those found
  poolbench run --dry-run                          what would be measured
\b
The results file's path is printed at the end, with --report that of the page. Exit status: 0 all measured; 1 some cells
failed (they are listed); 2 wrong command line or file; 130 interrupted: the next run continues where this one stopped.
"""


Profile = enum.StrEnum("Profile", "quick full smoke")


# When to stop, and seconds that a process run may take. On a slow machine the least count alone takes more than the
# budget; on a quick one the budget makes intervals narrower.
DEFAULTS = {
    Profile.quick: (Rule(3, 100, 0.02, 570.0), 60.0),
    Profile.full: (Rule(5, 10, 0.01), 3600.0),
    Profile.smoke: (Rule(1, 1, 1.0), 60.0),
}


def programs_of(bins: list[str] | None, profile: str, chosen: Selection) -> list[program.Program]:
    """Those named by --bin, else those built now."""
    if bins:
        return [
            each for name, path in options.pairs(bins, "--bin") for each in program.load_with_siblings(name, Path(path))
        ]
    names = [toolchain.name for toolchain in toolchains.TOOLCHAINS]
    chosen.check("toolchain", names)
    main, programs, quickly = "", [], profile == Profile.smoke
    for toolchain in toolchains.TOOLCHAINS:
        name = toolchain.name
        everything = quickly and not main and not chosen.workload  # with what has no description
        units = [] if everything else matrix.wanted_units(profile, description.load(), chosen, name, main or name)
        if not chosen.takes("toolchain", name) or not (units or everything):
            continue
        probed = toolchains.probe(toolchain)
        if not probed.works:
            options.say(f"toolchain {name} is left out: {probed.why_absent}")
            continue
        programs += build.ensure(probed, units, options.say, quickly)
        main = main or name
    if not programs:
        raise Failed("no toolchain is installed, so there is nothing to measure")
    return programs


def mallocs_of(words: list[str] | None, profile: str) -> tuple[list[mallocs.Malloc], list[str]]:
    """What --malloc names: those to measure with, and which of them are chosen; NAME=PATH is measured beside the
    others, unless names alone choose among them: then it is one of those chosen."""
    split = [word for given in words or [] for word in given.split(",") if word]
    named = dict(options.pairs([word for word in split if "=" in word], "--malloc"))
    chosen = [word for word in split if "=" not in word]
    for name, path in named.items():
        if not Path(path).is_file():
            raise BadInput(f"--malloc {name}={path}: there is no such library")
    chosen += list(named) if chosen else []
    found, missing = mallocs.find()
    # What the user names goes before what was found under that name.
    of_user = [mallocs.Malloc(name, path, mallocs.version_of(name, path)) for name, path in named.items()]
    found = [each for each in found if each.name not in named]
    found += [each for each in of_user if each.name != mallocs.DEFAULT]
    for name, why in missing.items():
        if name in chosen and name not in named:
            raise BadInput(why)
        if name not in named:
            options.say(f"left out: {why}")
    if profile != "smoke" or chosen:
        return found, chosen
    # A smoke run is about the workloads' arithmetic, which does not depend on the malloc; one that is named is tried.
    return [malloc for malloc in found if malloc is found[0] or malloc.name in named], chosen


def found_for(
    profile: Profile, chosen: Selection, libraries: list[mallocs.Malloc], bins: list[str] | None, descriptions: dict
) -> tuple[list[Cell], list[program.Program], list[mallocs.Malloc]]:
    """What there is to measure, and with what."""
    names = [library.name for library in libraries]
    chosen.check("malloc", [*names, mallocs.OURS])  # an error before a build of many minutes
    if not bins:
        chosen.check("workload", descriptions)
    programs = programs_of(bins, profile, chosen)
    if mallocs.OURS not in names and (profile != Profile.smoke or mallocs.OURS in chosen.malloc):
        libraries += mallocs.ours(programs[0].path) if programs else []
        names = [library.name for library in libraries]
    cells = chosen.filter(matrix.cells_of(profile, programs, names, descriptions))
    if not cells:
        kinds = ", ".join(sorted({p.optimisation for p in programs}))
        raise BadInput(f"nothing to measure: {profile} wants a Release build (-O3), there is {kinds}")
    used = {(cell.toolchain, cell.optimisation) for cell in cells}
    return cells, [p for p in programs if (p.toolchain, p.optimisation) in used], libraries


def results_path(output: Path | None, fresh: bool, profile: str, selection: dict, programs: list) -> Path:
    """The file to write to: the one named, an unfinished one, or a new one."""
    if output is None:
        directory, executables = find.DIRECTORY, {program.sha256 for program in programs}
        if not fresh and (found := find.unfinished(directory, profile, selection, executables)):
            return found.path
        return find.new_path(profile, directory)
    if output.is_dir():
        return find.new_path(profile, output)
    if output.exists() and fresh:
        raise BadInput(f"{output} exists: --fresh wants a name of its own")
    find.continued(output, programs)
    return output


def run(
    profile: option(Profile, "quick: minutes; full: published counts, hours; smoke: once, tiny.") = Profile.quick,
    workload: options.WorkloadOption = None,
    variant: options.VariantOption = None,
    contender: options.ContenderOption = None,
    malloc: options.MallocOption = None,
    toolchain: options.ToolchainOption = None,
    samples: option(int | None, "Least process runs of each.", metavar="N", min=1, max=1000) = None,
    precision: options.PrecisionOption = None,
    budget: options.BudgetOption = None,
    timeout: options.TimeoutOption = None,
    output: option(
        Path | None, "Results file (continued if it exists) or directory. Default: beside your other runs."
    ) = None,
    fresh: option(bool, "Start a new run even if a stopped one could be completed.", "--fresh") = False,
    bins: options.BinOption = None,
    seed: options.SeedOption = SEED,
    report: option(bool, "At the end, print the summary and three sentences, and draw the report.", "--report") = False,
    dry_run: option(bool, "Only list what would be measured.", "--dry-run") = False,
) -> None:
    """Measure a profile, or a selection of it.

    Builds what is missing, runs the cells interleaved, a process a sample, and writes each sample as it comes.
    """
    with options.when_interrupted("interrupted; the same command continues from here"):
        libraries, names = mallocs_of(malloc, profile)
        chosen = Selection.of(
            workload=workload, variant=variant, contender=contender, malloc=names, toolchain=toolchain
        )
        descriptions = description.load()
        if output is not None and not output.is_dir() and not dry_run:  # before a build of minutes
            check_writable(output)
        cells, programs, libraries = found_for(profile, chosen, libraries, bins, descriptions)
        if dry_run:
            for cell in cells:
                typer.echo(str(cell))
            return
        selection = chosen.describe()
        path = results_path(output, fresh, profile, selection, programs)
        usual, limit = DEFAULTS[profile]
        least = samples or usual.least
        rule = Rule(least, max(least, usual.most), precision or usual.precision, budget or usual.budget)
        plan = RunPlan(
            path, str(profile), cells, programs, libraries, rule, timeout or limit, selection, descriptions, seed,
            costs=find.costs(str(profile), cells),
        )  # fmt: skip
        results = carry_out(plan, options.say, options.progress_stream())
    if report:
        conclude(results, descriptions)
    else:
        typer.echo(str(results.path))
    trial.end(results, f"; their output is in {results.path}")


def conclude(results: Results, descriptions: dict[str, description.Description]) -> None:
    """What `make bench` ends with. The verdict on each claim is in the report."""
    from poolbench import tables
    from poolbench.commands.report import make
    from poolbench.report import page

    judged = page.judge(results, descriptions)
    typer.echo(f"{options.origin(results)}\nresults: {results.path}\n")
    tables.print_text(tables.summary_sheet(judged.headlines, judged.busy))
    for sentence in judged.sentences():
        typer.echo(sentence)
    typer.echo(f"report: {make(results, None, judged=judged)}")
