#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Measures what the examples gain, and writes the figures of docs/cookbook/.

usage: measure_examples.py [--bin DIR] [--runs N]
       measure_examples.py --write

The examples are those of a build without tests, which compiles them as users do:
cmake -B build/examples -DPOOLED_BUILD_TESTS=OFF -DPOOLED_BUILD_BENCH=OFF && cmake --build build/examples
Each example that compares runs with --malloc and with --pool in turns, N times (default 9); the sample is a process,
which prints the seconds of its measured part. The ratio is that of the medians. The result goes to
docs/cookbook/results.json, and from there into the pages, between <!-- measured --> and <!-- end -->; so do the costs
of the handles, which example-handle_costs measures, into docs/counted-pointers.md. --write writes the pages anew and
measures nothing.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from poolbench.system import hardware  # noqa: E402

PAGES = ROOT / "docs/cookbook"
# Example, and variant if it has several -> its arguments at a size that is worth measuring.
EXAMPLES = {
    "capture_pipeline": ["--packets", "1000000"],
    "asio_server": ["--messages", "10000"],
    "asio_server chat": ["--chat", "--messages", "5000"],
    "json_documents": ["--mib", "50"],
    "json_documents small pages": ["--small-pages", "--mib", "50"],
    "lru_cache": ["--entries", "100000", "--lookups", "2000000"],
    "expression_tree": ["--trees", "100000"],
    "coroutine_frames": ["--number", "30"],
    "audio_callback": ["--callbacks", "20000"],
}
HANDLE_PAGE = ROOT / "docs/counted-pointers.md"
HANDLES = ["std::shared_ptr", "rc_ptr", "local_rc_ptr"]
HANDLE_CALLS = "30000000"
# What example-handle_costs knows as --work -> what the page calls it.
HANDLE_WORKS = {
    "create": "create and drop, default pool",
    "create_in_pool": "create and drop, a separate pool",
    "copy": "copy and drop the copy",
    "lock": "`lock()` a weak pointer and drop",
}
MARKED = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)


def seconds(*command: str | Path) -> float:
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r": seconds ([0-9.]+)$", said, re.MULTILINE)[1])


def medians(runs: int, commands: dict[str, list]) -> dict[str, float]:
    """Seconds of each command; they are run in turns."""
    samples = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            samples[name].append(seconds(*command))
    return {name: statistics.median(each) for name, each in samples.items()}


def measure(folder: Path, runs: int) -> dict:
    ratios = {}
    for name, arguments in EXAMPLES.items():
        program = folder / f"example-{name.split()[0]}"
        found = medians(runs, {kind: [program, f"--{kind}", *arguments] for kind in ("malloc", "pool")})
        ratios[name] = round(found["malloc"] / found["pool"], 2)
        print(f"{name}: malloc takes {ratios[name]} times as long", flush=True)
    handles = {}  # work -> handle -> its time, that of std::shared_ptr being 1
    for work in HANDLE_WORKS:
        program = [folder / "example-handle_costs", "--work", work, "--calls", HANDLE_CALLS]
        found = medians(runs, {handle: [*program, "--handle", handle] for handle in HANDLES})
        handles[work] = {handle: round(median / found[HANDLES[0]], 2) for handle, median in found.items()}
        print(f"handles, {work}: {handles[work]}", flush=True)
    return {
        "handles": handles,
        "processor": hardware.describe()["cpu"],
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "runs": runs,
        "arguments": {name: " ".join(arguments) for name, arguments in EXAMPLES.items()},
        "malloc_to_pool": ratios,
    }


def measured_handles(results: dict) -> str:
    lines = ["| | `std::shared_ptr` | `rc_ptr` | `local_rc_ptr` |", "|---|---|---|---|"]
    for work, title in HANDLE_WORKS.items():
        _, *others = (f"{results['handles'][work][handle]:.2f}" for handle in HANDLES)
        lines.append(f"| {title} | 1 | {' | '.join(others)} |")
    return "\n".join(lines) + "\n"


def measured(page: str, results: dict) -> str:
    """What stands between the marks of a page; README.md has all examples, another page its own."""
    rows = [name for name in results["malloc_to_pool"] if page == "README" or name.split()[0] == page]
    lines = ["| example | arguments | time with malloc, the pool's being 1 |", "|---|---|---|"]
    lines += [f"| {name} | `{results['arguments'][name]}` | {results['malloc_to_pool'][name]:.2f} |" for name in rows]
    said = f"Medians of {results['runs']} interleaved process runs of each; glibc's malloc; {results['processor']};"
    return "\n".join([*lines, "", said, f"{results['date']}.\n"])


def written(path: Path, results: dict) -> str:
    text = measured_handles(results) if path == HANDLE_PAGE else measured(path.stem, results)
    return MARKED.sub(lambda m: m[1] + text + m[2], path.read_text(encoding="utf-8"))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/examples/examples")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(words)
    file = PAGES / "results.json"
    if not options.write:
        file.write_text(json.dumps(measure(options.bin, options.runs), indent=2) + "\n", encoding="utf-8")
    results = json.loads(file.read_text(encoding="utf-8"))
    for page in [*PAGES.glob("*.md"), HANDLE_PAGE]:
        page.write_text(written(page, results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
