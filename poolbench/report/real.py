# SPDX-License-Identifier: BSL-1.0
"""Markdown tables of what `poolbench real` measured: programs that others wrote, as they are and with a pool."""

from collections.abc import Callable

from poolbench.analysis import stats
from poolbench.analysis.estimate import collect
from poolbench.plan.cell import Cell
from poolbench.plan.description import TIME
from poolbench.results.read import Results
from poolbench.system.mallocs import DEFAULT, OURS
from poolbench.system.real import AS_IS

POOLED = "pooled"
CPU, PEAK = "seconds", "peak_mib"
Figures = dict[tuple[str, str, str], dict[str, float]]  # program, variant, malloc -> medians


def facts(results: Results) -> dict[str, dict]:
    """What the sessions say of each program: package, version, lines, seconds to compile."""
    found: dict[str, dict] = {}
    for session in results.sessions:
        found.update(session.get("selection", {}).get("programs", {}))
    return found


def figures(results: Results) -> Figures:
    taken = collect(results)
    return {
        (cell.workload, cell.contender, cell.malloc): {
            CPU: stats.median(times) / 1e9, PEAK: stats.median(taken[cell, PEAK]), "runs": len(times)
        }
        for (cell, measure), times in taken.items() if measure == TIME
    }  # fmt: skip


def different_output(results: Results) -> list[Cell]:
    """Those whose output is not that of the program as it is on glibc."""
    outputs = [(cell, sample["figures"]["output"]) for cell, sample in results.samples]
    wanted = {cell.workload: output for cell, output in outputs if (cell.contender, cell.malloc) == (AS_IS, DEFAULT)}
    return list(dict.fromkeys(cell for cell, output in outputs if output != wanted.get(cell.workload, output)))


def _table(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *rows]) + "\n"


def _names(found: Figures) -> tuple[list[str], list[str]]:
    """Programs, and the mallocs that are rivals, in the order of the file's cells; glibc is first."""
    mallocs = sorted({malloc for _, _, malloc in found} - {DEFAULT, OURS})
    return sorted({program for program, _, _ in found}), [DEFAULT, *mallocs]


def lead(results: Results) -> str:
    """A row a program that was measured as it is on glibc: its processor time there, then what others take of it."""
    found, known, rows = figures(results), facts(results), []
    programs, mallocs = _names(found)
    for program in programs:

        def time(variant: str, malloc: str, program=program) -> float:
            return found.get((program, variant, malloc), {}).get(CPU, float("inf"))

        def share(value: float, base: float = time(AS_IS, DEFAULT)) -> str:
            return f"{value / base:.2f}" if value < float("inf") else ""

        if time(AS_IS, DEFAULT) == float("inf"):
            continue
        best = min(mallocs[1:] or mallocs, key=lambda malloc: time(AS_IS, malloc))
        below = min(mallocs, key=lambda malloc: time(POOLED, malloc))
        about = known.get(program, {})
        edited = about.get("variants", {}).get(POOLED, {}).get("lines", 0)
        rows.append([
            f"{program} {about.get('version', '')}: {about.get('job', '')}", f"{time(AS_IS, DEFAULT):.2f} s",
            f"{share(time(AS_IS, best))} ({best})", share(time(AS_IS, OURS)),
            share(time(POOLED, DEFAULT)), share(time(POOLED, OURS)),
            f"{share(time(POOLED, below))} ({below})" if time(POOLED, below) < float("inf") else "",
            str(edited) if edited else "",
        ])  # fmt: skip
    columns = ["program and job", "glibc", "best malloc", f"`{OURS}`", "pooled in the source", f"both, on `{OURS}`"]
    return _table([*columns, "in the source, best malloc", "lines edited"], rows) if rows else ""


def matrix(results: Results, figure: str, text: Callable[[float], str]) -> str:
    """A row a program and variant, a column a malloc."""
    found = figures(results)
    programs, mallocs = _names(found)
    rows = []
    for program in programs:
        variants = list(dict.fromkeys(variant for name, variant, _ in found if name == program))
        for variant in sorted(variants, key=lambda name: (name != AS_IS, len(name))):
            values = [found.get((program, variant, malloc), {}).get(figure) for malloc in [*mallocs, OURS]]
            rows.append([program, variant.replace("_", " "), *("" if each is None else text(each) for each in values)])
    return _table(["program", "source", *mallocs, f"`{OURS}`"], rows)


def costs(results: Results) -> str:
    """Lines edited, and processor seconds to compile."""
    rows = []
    for program, about in sorted(facts(results).items()):
        base = about["variants"][AS_IS]["compile_seconds"]
        for variant, each in about["variants"].items():
            ratio = f"{each['compile_seconds'] / base:.2f}" if base else ""
            lines = f"{each['lines']} in {each['files']}" if each["lines"] else "0"
            rows.append([program, variant.replace("_", " "), lines, f"{each['compile_seconds']:.1f}", ratio])
    return _table(["program", "source", "lines edited, in files", "seconds to compile", "÷ as is"], rows)


def page(results: Results) -> str:
    """All tables."""
    runs = sorted({each["runs"] for each in figures(results).values()})
    said = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}" if runs else "0"
    return "\n".join([
        "# Programs that no one here wrote\n",
        "What `poolbench real` measured: programs of others, fixed jobs, the same output everywhere.\n",
        f"Processor time (user and system) of a whole process; medians of {said} interleaved runs; "
        f"{results.machine_name()}, {results.measured_on()}.\n",
        *(["Shares are of the time as it is on glibc:\n", shares] if (shares := lead(results)) else []),
        "Processor time in seconds:\n", matrix(results, CPU, lambda value: f"{value:.3f}"),
        "Peak resident memory in MiB:\n", matrix(results, PEAK, lambda value: f"{value:.1f}"),
        "What it costs to edit and to compile:\n", costs(results),
    ])  # fmt: skip
