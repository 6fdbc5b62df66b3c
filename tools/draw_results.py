#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes what the documentation shows of the results file that README.md names.

usage: draw_results.py [RESULTS.jsonl.xz]

With a file of bench/results/, README.md names that one from then on. Written are docs/images/aging.svg and latency.svg,
which follow the reader's light or dark setting, and the tables between <!-- results --> and <!-- end --> of README.md
and docs/benchmarks.md. A test writes them anew and compares. A figure is the median over the runs of a cell.
"""

import hashlib
import json
import lzma
import math
import re
import statistics
import sys
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
WIDTH = 720
# Those of Okabe and Ito, which colour-blind readers tell apart; pooled is the one that is drawn thick.
COLOURS = {"glibc": "#0072b2", "tcmalloc": "#e69f00", "jemalloc": "#cc79a7", "mimalloc": "#56b4e9", "pooled": "#009e73"}
STYLE = (
    "<style>svg{color:#1f2328;background:#fff}text{fill:currentColor;font:12px sans-serif}"
    ".grid{stroke:currentColor;stroke-opacity:.2}.end{text-anchor:end}.middle{text-anchor:middle}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)
NAMED = re.compile(r"bench/results/[\w-]+\.jsonl\.xz")
TABLE = re.compile(r"(<!-- results -->\n).*?(?=<!-- end -->)", re.DOTALL)
MALLOCS = ["glibc", "tcmalloc", "jemalloc", "mimalloc"]
TIME = "ns_per_op"
BURSTS, CHURN = "e2_packet_burst burst payload", "e1_list_churn text"
SLOT, BUMP, RINGS = "one_slot: one fixed slot", "bump: a bump pointer", "two_rings: the same blocks back and forth"
# Page -> rows of its table: title, cell, figure, and as `limit` a contender with what it is. Of a row with one more
# column only that contender is shown.
ROWS = {
    "README.md": [
        ("create, drop, one thread", "create_drop loop payload=48", TIME, SLOT),
        ("the same, 1500-byte payload", "create_drop loop payload=1500", TIME, SLOT),
        ("1 M created, then all dropped", f"{BURSTS}=48", TIME, BUMP),
        ("the same, 1500-byte payload", f"{BURSTS}=1500", TIME, BUMP),
        ("thread A creates, thread B drops", "e5_handoff bursts payload=48", TIME, RINGS),
        ("the same, 1500-byte payload", "e5_handoff bursts payload=1500", TIME, RINGS),
        ("two threads, random replacement", "e7_random_replacement replace payload=48 threads=2 live=10000", TIME,
         "thread_local_list: a list in each thread"),
        ("list of 1 M built, walked, dropped after five million replacements", "e11_aging list", TIME, ""),
        ("... in comparison with a fresh process", "e11_aging list", "aged_over_fresh", ""),
        ("list churn ([E1](docs/benchmarks.md))", CHURN, TIME, "raw: raw pointers"),
        ("list churn, lists dropped in a [`reclaim_scope`](docs/teardown.md)", CHURN, TIME, "", "pooled_scope"),
        ("64 KiB, created and dropped", "e13_large create_drop payload=65536", TIME, ""),
        ("8 MiB, created and dropped", "e13_large create_drop payload=8388608", TIME, ""),
        ("slowest of 10,000 drops on another thread (p99.99)", "e12_latency remote", "drop_p9999_ns", ""),
        ("resident bytes per live `shared_ptr` to 48 bytes", "e10_resident live", "resident_bytes_per_object", ""),
        ("MiB left after all are dropped, and `trim()`", "e10_resident live", "resident_mib_after_trim", ""),
    ],
    "docs/benchmarks.md": [
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


def mark_of(file: Path) -> str:
    return f"<!-- drawn from {file.name}, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()} -->"


@cache
def samples_of(file: Path) -> list[dict]:
    """Of GCC's optimised program, whose figures they are."""
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        records = [json.loads(each) for each in lines]
    wanted = {"toolchain": "gcc", "optimisation": "-O3"}
    return [each for each in records if each["record"] == "sample" and wanted.items() <= each["cell"].items()]


def medians(file: Path, cells: str, contender: str, malloc: str, figures: list[list[str]]) -> list[float]:
    """Of the one cell that is meant, the median of the sum of each group of figures; empty when it was not measured."""
    workload, variant, *parameters = cells.split()
    wanted = {"workload": workload, "variant": variant, "contender": contender, "malloc": malloc}
    wanted |= {name: int(value) for name, value in (each.split("=") for each in parameters)}
    found = [each for each in samples_of(file) if wanted.items() <= each["cell"].items()]
    if len({json.dumps(each["cell"], sort_keys=True) for each in found}) > 1:
        raise LookupError(f"{file}: several cells are {wanted}")
    told = [{TIME: each[TIME], **each["figures"]} for each in found]
    told = [each for each in told if all(figure in each for group in figures for figure in group)]
    return [statistics.median(sum(each[figure] for figure in group) for each in told) for group in figures if told]


def by_allocator(file: Path, cells: str, figures: list[list[str]]) -> dict[str, list[float]]:
    named = {**{malloc: ("make_shared", malloc) for malloc in MALLOCS}, "pooled": ("pooled", "glibc")}
    return {name: found for name, who in named.items() if (found := medians(file, cells, *who, figures))}


def row(file: Path, title: str, cells: str, figure: str, limit: str, alone: str = "") -> str:
    def shown(contender: str, malloc: str = "glibc") -> str:
        value = medians(file, cells, contender, malloc, [[figure]])
        return "" if not value else f"{value[0]:.2f}" if "over" in figure else f"{value[0]:,.{int(value[0] < 10)}f}"

    contender, _, what = limit.partition(": ")
    best = shown(contender) if contender else ""
    mallocs = [""] * 4 if alone else [shown("make_shared", malloc) for malloc in MALLOCS]
    ours = [
        f"**{shown(alone or 'pooled')}**",
        "" if alone else shown("pooled_instance"),
        f"{best} ({what})" if best else "",
    ]
    return f"| {' | '.join([title, *mallocs, *ours])} |\n"


def written(page: str, file: Path) -> str:
    text = NAMED.sub(file.relative_to(ROOT).as_posix(), (ROOT / page).read_text(encoding="utf-8"))
    head = f"| work | {' | '.join(MALLOCS)} | **`pooled`** | instance | limit |\n|{'---|' * 8}\n"
    return TABLE.sub(lambda found: found[1] + head + "".join(row(file, *each) for each in ROWS[page]), text)


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{colour}" fill-opacity="{opacity:.2f}"/>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def drawing(height: float, title: str, parts: list[str], file: Path) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img">'
    return "\n".join([mark_of(file), head, f"<title>{escape(title)}</title>", STYLE, *parts, "</svg>"]) + "\n"


def aging(file: Path) -> str:
    """Two bars an allocator, fresh and aged, each of the parts build, walk and drop."""
    steps, ages = ["build", "walk", "drop"], ["fresh", "aged"]
    groups = [[f"{age}_{step}_ns" for step in steps] for age in ages]
    found = by_allocator(file, "e11_aging list", [*([figure] for group in groups for figure in group), *groups])
    left, top, bar = 120, 60, 20
    most = max(sum(values[i : i + 3]) for values in found.values() for i in (0, 3))
    scale = (WIDTH - left - 60) / most
    bottom = top + len(found) * (2 * bar + 18)
    words = "ns per node, a list of 1 M nodes; light: in a fresh process, full colour: after five million replacements"
    parts = [text(left, 20, words)]
    for i, step in enumerate(steps):
        parts += [
            text(left + i * 110 + 18, 44, step),
            rectangle(left + i * 110, 34, 12, 12, "currentColor", 1 - 0.3 * i),
        ]
    for tick in range(0, math.ceil(most) + 1, 20):
        parts += [line(left + tick * scale, top, left + tick * scale, bottom)]
        parts += [text(left + tick * scale, bottom + 16, str(tick), "middle")]
    said = []
    for at, (name, values) in enumerate(found.items()):
        y = top + at * (2 * bar + 18)
        parts.append(text(left - 10, y + bar + 4, name, "end"))
        for which, age in enumerate(ages):
            x = float(left)
            for i, value in enumerate(values[3 * which : 3 * which + 3]):
                opacity = (1 - 0.3 * i) * (0.55 if age == "fresh" else 1)
                parts.append(rectangle(x, y + which * bar, value * scale, bar - 2, COLOURS[name], opacity))
                x += value * scale
            parts.append(text(x + 6, y + which * bar + 13, f"{values[6 + which]:.0f} {age}"))
        said.append(f"{name} {values[6]:.0f} fresh, {values[7]:.0f} aged")
    return drawing(bottom + 26, "Nanoseconds to build, walk and drop a node: " + "; ".join(said), parts, file)


def latency(file: Path) -> str:
    """Percentiles of creates, and of drops by another thread, as lines over a logarithmic scale."""
    steps = {"p50": "50 %", "p99": "99 %", "p999": "99.9 %", "p9999": "99.99 %"}
    top, height, width, low, high = 80, 250, 270, 10.0, 20_000.0

    def y_of(value: float) -> float:
        return top + height * (1 - math.log(value / low) / math.log(high / low))

    parts = [
        text(50, 20, "ns within which this share of the calls completes; one thread creates, another drops; 48 bytes")
    ]
    for i, name in enumerate(COLOURS):
        parts += [rectangle(50 + i * 100, 30, 12, 12, COLOURS[name]), text(68 + i * 100, 41, name)]
    said = []
    for panel, call in enumerate(["create", "drop"]):
        left = 50 + panel * (width + 70)
        parts.append(text(left + width / 2, top - 12, call, "middle"))
        for tick in (10, 100, 1000, 10_000):
            parts.append(line(left, y_of(tick), left + width, y_of(tick)))
            parts.append(text(left - 6, y_of(tick) + 4, f"{tick:,}", "end"))
        xs = [left + 20 + i * (width - 40) / (len(steps) - 1) for i in range(len(steps))]
        parts += [text(x, top + height + 18, part, "middle") for x, part in zip(xs, steps.values(), strict=True)]
        for name, values in by_allocator(file, "e12_latency remote", [[f"{call}_{step}_ns"] for step in steps]).items():
            points = " ".join(f"{x:.1f},{y_of(value):.1f}" for x, value in zip(xs, values, strict=True))
            thick = 4 if name == "pooled" else 2
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="{thick}"/>')
            said.append(f"{name}, {call}: " + ", ".join(f"{value:.0f}" for value in values))
    title = f"Nanoseconds of {', '.join(steps.values())} of the calls: " + "; ".join(said)
    return drawing(top + height + 30, title, parts, file)


DRAWINGS = {"aging": aging, "latency": latency}


def main(words: list[str]) -> int:
    file = Path(words[0]).resolve() if words else results_file()
    for page in ROWS:
        (ROOT / page).write_text(written(page, file), encoding="utf-8")
    for name, draw in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(draw(file), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
