#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes what the documentation shows of the results file that README.md names.

usage: draw_results.py [RESULTS.jsonl.xz]

With a file of bench/results/, README.md names that one from then on. Written are docs/images/result.svg, aging.svg and
latency.svg, which follow the reader's light or dark setting, and what stands between <!-- results --> and <!-- end -->
in README.md and docs/benchmarks.md, and after <!-- real: FILE -->, of the file that is named there. A test writes them
anew and compares. A figure is the median over the runs of a cell.
"""

import re
import statistics
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from poolbench.analysis import claims, headlines  # noqa: E402
from poolbench.analysis.estimate import collect, estimates  # noqa: E402
from poolbench.plan import description  # noqa: E402
from poolbench.plan.cell import Cell  # noqa: E402
from poolbench.report import chart, real  # noqa: E402
from poolbench.results.read import read  # noqa: E402

IMAGES = ROOT / "docs/images"
NAMED = re.compile(r"bench/results/[\w-]+-quick\.jsonl\.xz")
REAL = re.compile(r"(<!-- real: (\S+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
TABLE = re.compile(r"(<!-- results -->\n).*?(?=<!-- end -->)", re.DOTALL)
MALLOCS = ["glibc", "tcmalloc", "jemalloc", "mimalloc"]  # of the pictures; the tables name the best of all
OURS = "pooled-new"
TIME = "ns_per_op"
BURSTS, CHURN = "e2_packet_burst burst payload", "e1_list_churn text"
SLOT, BUMP, RINGS = "one_slot: one fixed slot", "bump: a bump pointer", "two_rings: the same blocks back and forth"
# Page -> rows of its table: title, cell, figure, and as `limit` a contender with what it is. Of a row with one more
# column only that contender is shown.
ROWS = {
    "README.md": [
        ("create, drop, one thread", "create_drop loop payload=48", TIME, SLOT),
        ("a burst of 1500-byte payload", f"{BURSTS}=1500", TIME, BUMP),
        ("thread A creates, thread B drops", "e5_handoff bursts payload=48", TIME, ""),
        ("two threads, random replacement", "e7_random_replacement replace payload=48 threads=2 live=10000", TIME,
         "thread_local_list: a list in each thread"),
        ("list churn ([E1](docs/benchmarks.md))", CHURN, TIME, "raw: raw pointers"),
    ],
    "docs/benchmarks.md": [
        ("the same, 1500-byte payload", "create_drop loop payload=1500", TIME, SLOT),
        ("1 M created, then all dropped", f"{BURSTS}=48", TIME, BUMP),
        ("the same, 1500-byte payload", "e5_handoff bursts payload=1500", TIME, RINGS),
        ("list of 1 M built, walked, dropped after five million replacements", "e11_aging list", TIME, ""),
        ("... in comparison with a fresh process", "e11_aging list", "aged_over_fresh", ""),
        ("list churn, lists dropped in a [`reclaim_scope`](teardown.md)", CHURN, TIME, "", "pooled_scope"),
        ("64 KiB, created and dropped", "e13_large create_drop payload=65536", TIME, ""),
        ("slowest of 10,000 drops on another thread (p99.99)", "e12_latency remote", "drop_p9999_ns", ""),
        ("resident bytes per live `shared_ptr` to 48 bytes", "e10_resident live", "resident_bytes_per_object", ""),
        ("64 KiB in a queue of 32", "e13_large queue payload=65536", TIME, ""),
        ("64 KiB from an `object_pool`", "e9_recycled loop payload=65536", TIME, "", "pooled_recycled"),
        ("1 MiB in a queue of 32", "e13_large queue payload=1048576", TIME, ""),
        ("1 MiB, dropped by another thread", "e13_large hand_over payload=1048576", TIME, ""),
        ("a packet of the capture pipeline", "e14_programs capture", TIME, ""),
        ("a MiB of JSON documents", "e14_programs json", TIME, ""),
        ("steady replacement: 99.9th percentile of a drop", "e12_latency steady", "drop_p999_ns", ""),
        ("99.99th percentile", "e12_latency steady", "drop_p9999_ns", ""),
        ("a node of a tree of two million", "e8_teardown tree live=2000000", TIME, ""),
        ("create and drop with `make_rc`", "create_drop loop payload=48", TIME, "", "pooled_rc"),
    ],
}  # fmt: skip


def results_file() -> Path:
    return ROOT / NAMED.search((ROOT / "README.md").read_text(encoding="utf-8"))[0]


@cache
def samples_of(file: Path) -> dict[tuple[Cell, str], list[float]]:
    """Of GCC's optimised program, whose figures they are."""
    samples = collect(read(file)).items()
    return {of: values for of, values in samples if (of[0].toolchain, of[0].optimisation) == ("gcc", "-O3")}


@cache
def estimated(file: Path) -> list[dict]:
    return estimates(read(file))


def medians(file: Path, cells: str, contender: str, malloc: str, figures: list[list[str]]) -> list[float]:
    """Of the one cell that is meant, the median of the sum of each group of figures; empty when it was not measured."""
    workload, variant, *parameters = cells.split()
    wanted = {"workload": workload, "variant": variant, "contender": contender, "malloc": malloc}
    wanted |= {name: int(value) for name, value in (each.split("=") for each in parameters)}
    found = {cell for cell, _ in samples_of(file) if wanted.items() <= vars(cell).items()}
    if len(found) > 1:
        raise LookupError(f"{file}: several cells are {wanted}")
    values = [[samples_of(file).get((cell, figure), []) for figure in group] for cell in found for group in figures]
    return [statistics.median(map(sum, zip(*group, strict=True))) for group in values if all(group)]


def by_allocator(file: Path, cells: str, figures: list[list[str]]) -> dict[str, list[float]]:
    named = {**{malloc: ("make_shared", malloc) for malloc in MALLOCS}, "pooled": ("pooled", "glibc")}
    return {name: found for name, who in named.items() if (found := medians(file, cells, *who, figures))}


def row(file: Path, title: str, cells: str, figure: str, limit: str, alone: str = "") -> str:
    def shown(contender: str, malloc: str = "glibc") -> str:
        value = medians(file, cells, contender, malloc, [[figure]])
        return "" if not value else f"{value[0]:.2f}" if "over" in figure else f"{value[0]:,.{int(value[0] < 10)}f}"

    def best() -> str:
        mallocs = {cell.malloc for cell, _ in samples_of(file)} - {OURS}
        found = {each: medians(file, cells, "make_shared", each, [[figure]]) for each in mallocs}
        least = min((value[0], each) for each, value in found.items() if value)[1] if any(found.values()) else ""
        return f"{shown('make_shared', least)} ({least})" if least else ""

    contender, _, what = limit.partition(": ")
    least = shown(contender) if contender else ""
    others = [""] * 3 if alone else [shown("make_shared"), best(), shown("make_shared", OURS)]
    ours = f"**{shown(alone or 'pooled')}**"
    instance, least = "" if alone else shown("pooled_instance"), f"{least} ({what})" if least else ""
    return f"| {' | '.join([title, *others, ours, instance, least])} |\n"


def written(page: str, file: Path) -> str:
    text = NAMED.sub(file.relative_to(ROOT).as_posix(), (ROOT / page).read_text(encoding="utf-8"))
    text = REAL.sub(lambda found: found[1] + real.lead(read(ROOT / found[2])), text)
    head = f"| work | glibc | best malloc | `{OURS}` | **`pooled`** | instance | limit |\n|{'---|' * 7}\n"
    rows = "".join(row(file, *each) for each in ROWS[page])
    below = promises(file) if page == "docs/benchmarks.md" else ""
    return TABLE.sub(lambda found: found[1] + head + rows + below, text)


@cache
def promises(file: Path) -> str:
    results = read(file)
    ours = [each for each in claims.judge(estimated(file), installed=results.installed) if each.by == claims.OURS_BY]
    return f"\nOf the promises of this project in `poolbench/claims.toml`, {claims.counted(ours)} in this file.\n"


def result(file: Path) -> chart.Chart:
    """A row a work, as the report begins."""
    results = read(file)
    rows = headlines.rows(estimated(file), description.load(), results.installed)
    return chart.picture([each for each in rows if each.headline.measure == TIME])


def aging(file: Path) -> chart.Chart:
    """A row an allocator: fresh, and aged."""
    groups = [[f"{age}_{step}_ns" for step in ("build", "walk", "drop")] for age in ("fresh", "aged")]
    found = by_allocator(file, "e11_aging list", groups)
    lines = [chart.Line(name, [mark("fresh", values[0]), mark("aged", values[1])]) for name, values in found.items()]
    said = "; ".join(f"{name} {values[0]:.0f} fresh, {values[1]:.0f} aged" for name, values in found.items())
    axis = "ns per node of a list of 1 M, built, walked and dropped; aged: after five million replacements"
    return chart.draw("", f"Nanoseconds to build, walk and drop a node: {said}", axis, lines)


def latency(file: Path) -> chart.Chart:
    """A row a percentile of creates, and of drops by another thread."""
    lines, said = [], []
    for call in ("create", "drop"):
        for step, share in {"p50": "50 %", "p99": "99 %", "p999": "99.9 %", "p9999": "99.99 %"}.items():
            found = by_allocator(file, "e12_latency remote", [[f"{call}_{step}_ns"]])
            lines.append(chart.Line(f"{call}, {share}", [mark(name, value) for name, (value,) in found.items()]))
            said.append(f"{call}, {share}: " + ", ".join(f"{name} {value:.0f}" for name, (value,) in found.items()))
    axis = "ns within which this share of the calls completes; one thread creates, another drops; 48 bytes"
    return chart.draw("", f"Nanoseconds of these shares of the calls: {'; '.join(said)}", axis, lines)


def mark(series: str, value: float) -> chart.Mark:
    return chart.Mark(series, chart.Figure(value, value, value))


DRAWINGS = {"result": result, "aging": aging, "latency": latency}


def main(words: list[str]) -> int:
    file = Path(words[0]).resolve() if words else results_file()
    for page in ROWS:
        (ROOT / page).write_text(written(page, file), encoding="utf-8")
    for name, draw in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(draw(file).alone(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
