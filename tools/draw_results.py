#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Draws docs/images/aging.svg and latency.svg from the results file that README.md names.

usage: draw_results.py

A test draws them anew and compares. They follow the reader's light or dark setting. A figure is the median over
the runs of a cell.
"""

import hashlib
import json
import math
import re
import statistics
import sys
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


def results_file() -> Path:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return ROOT / re.search(r"^From \[(bench/results/[\w-]+\.jsonl)\]", readme, re.MULTILINE)[1]


def mark_of(file: Path) -> str:
    return f"<!-- drawn from {file.name}, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()} -->"


def medians(file: Path, workload: str, variant: str, figures: list[list[str]]) -> dict[str, list[float]]:
    """Name of an allocator -> for each group of figures the median of their sum."""
    found: dict[str, list[dict]] = {name: [] for name in COLOURS}
    for line in file.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        cell = record.get("cell", {})
        if (cell.get("workload"), cell.get("variant"), cell.get("optimisation")) != (workload, variant, "-O3"):
            continue
        if cell["contender"] == "make_shared":
            found[cell["malloc"]].append(record["figures"])
        elif cell["contender"] == "pooled" and cell["malloc"] == "glibc":
            found["pooled"].append(record["figures"])
    return {
        name: [statistics.median(sum(each[figure] for figure in group) for each in samples) for group in figures]
        for name, samples in found.items()
        if samples
    }


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def drawing(height: float, title: str, parts: list[str], file: Path) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img">'
    return "\n".join([mark_of(file), head, f"<title>{escape(title)}</title>", STYLE, *parts, "</svg>"]) + "\n"


def aging(file: Path) -> str:
    """Two bars an allocator, fresh and aged, each of the parts build, walk and drop."""
    steps = ["build", "walk", "drop"]
    ages = ["fresh", "aged"]
    groups = [[f"{age}_{step}_ns" for step in steps] for age in ages]
    found = medians(file, "e11_aging", "list", [*([figure] for group in groups for figure in group), *groups])
    left, top, bar = 120, 60, 20
    most = max(sum(values[i : i + 3]) for values in found.values() for i in (0, 3))
    scale = (WIDTH - left - 60) / most
    bottom = top + len(found) * (2 * bar + 18)
    parts = [
        text(
            left,
            20,
            "ns per node, a list of 1 M nodes; light: in a fresh process, full colour: after five million replacements",
        )
    ]
    parts += [text(left + i * 110 + 18, 44, step) for i, step in enumerate(steps)]
    parts += [
        f'<rect x="{left + i * 110}" y="34" width="12" height="12" fill="currentColor" '
        f'fill-opacity="{1 - 0.3 * i:.1f}"/>'
        for i in range(3)
    ]
    for tick in range(0, math.ceil(most) + 1, 20):
        parts += [line(left + tick * scale, top, left + tick * scale, bottom)]
        parts += [text(left + tick * scale, bottom + 16, str(tick), "middle")]
    said = []
    for row, (name, values) in enumerate(found.items()):
        y = top + row * (2 * bar + 18)
        parts.append(text(left - 10, y + bar + 4, name, "end"))
        for which, age in enumerate(ages):
            x = float(left)
            for i, value in enumerate(values[3 * which : 3 * which + 3]):
                opacity = (1 - 0.3 * i) * (0.55 if age == "fresh" else 1)
                parts.append(
                    f'<rect x="{x:.1f}" y="{y + which * bar}" width="{value * scale:.1f}" height="{bar - 2}" '
                    f'fill="{COLOURS[name]}" fill-opacity="{opacity:.2f}"/>'
                )
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
        parts.append(f'<rect x="{50 + i * 100}" y="30" width="12" height="12" fill="{COLOURS[name]}"/>')
        parts.append(text(68 + i * 100, 41, name))
    said = []
    for panel, call in enumerate(["create", "drop"]):
        left = 50 + panel * (width + 70)
        parts.append(text(left + width / 2, top - 12, call, "middle"))
        for tick in (10, 100, 1000, 10_000):
            parts.append(line(left, y_of(tick), left + width, y_of(tick)))
            parts.append(text(left - 6, y_of(tick) + 4, f"{tick:,}", "end"))
        xs = [left + 20 + i * (width - 40) / (len(steps) - 1) for i in range(len(steps))]
        parts += [text(x, top + height + 18, part, "middle") for x, part in zip(xs, steps.values(), strict=True)]
        found = medians(file, "e12_latency", "remote", [[f"{call}_{step}_ns"] for step in steps])
        for name, values in found.items():
            points = " ".join(f"{x:.1f},{y_of(value):.1f}" for x, value in zip(xs, values, strict=True))
            thick = 4 if name == "pooled" else 2
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="{thick}"/>')
            said.append(f"{name}, {call}: " + ", ".join(f"{value:.0f}" for value in values))
    title = f"Nanoseconds of {', '.join(steps.values())} of the calls: " + "; ".join(said)
    return drawing(top + height + 30, title, parts, file)


DRAWINGS = {"aging": aging, "latency": latency}


def main() -> int:
    file = results_file()
    for name, draw in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(draw(file), encoding="utf-8")
        print(IMAGES / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
