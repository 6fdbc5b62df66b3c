#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The measured figures of README.md and docs/, and the results file that each one is read from.

usage: figures.py                          prints what differs from the results, and figures without a source
       figures.py --write                   writes the figures anew
       figures.py --results FILE.jsonl      takes them from another run of the benchmark, and writes them
       figures.py --measure EXAMPLES        measures what `make bench` does not, and writes the figures
       figures.py --record                  notes the figures of docs/mechanisms.md in docs/mechanisms.json

The results: the run of the benchmark that README.md names (`make bench`), bench/results/counts.json
(tools/measure_counts.py), *-compile-time.json (tools/compile_time.py), *-soak.json and *-forks.json (make soak), and
docs/mechanisms.json, for what was measured with code that exists no more. A figure keeps as many digits behind the
point as it has. Tables that other programs write stand between <!-- measured --> and <!-- end --> and are left alone.
Words that stand for a figure, such as "twice as fast", are checked and not written.
"""

import argparse
import functools
import json
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from measure_examples import processor  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
README = "README.md"
BENCHMARKS = "docs/benchmarks.md"
COUNTS = "bench/results/counts.json"
PAGES = [README, *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md"))]
NAMED_RESULTS = re.compile(r"bench/results/[\w-]+-quick\.jsonl")
Value = Callable[[], float]

# The figures of a cell

MALLOCS = ["glibc", "tcmalloc", "jemalloc", "mimalloc"]
TIME = "ns_per_op"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def results_of(page: str) -> str:
    return NAMED_RESULTS.search(read(page))[0]


@functools.cache
def samples_of(file: str) -> list[dict]:
    """Of GCC's optimised program, whose figures they are."""
    records = (json.loads(line) for line in read(file).splitlines())
    shown_ones = {"toolchain": "gcc", "optimisation": "-O3"}
    return [each for each in records if each["record"] == "sample" and shown_ones.items() <= each["cell"].items()]


def median_of(file: str, wanted: dict, figure: str) -> float:
    found = defaultdict(list)
    for each in samples_of(file):
        if all(each["cell"].get(key) == value for key, value in wanted.items()):
            value = each[figure] if figure in each else each["figures"][figure]
            found[json.dumps(each["cell"], sort_keys=True)].append(value)
    if len(found) != 1:
        raise LookupError(f"{file}: {len(found)} cells are {wanted}")
    return statistics.median(next(iter(found.values())))


def cell(where: dict, who: str, figure: str = TIME, unit: float = 1, *, page: str = README) -> Value:
    """Of contender@malloc; of make_shared alone the least of all mallocs, and with > the greatest."""

    def value() -> float:
        contender, _, malloc = who.rstrip(">").partition("@")
        mallocs = [malloc or "glibc"] if malloc or contender != "make_shared" else MALLOCS
        wanted = ({**where, "contender": contender, "malloc": each} for each in mallocs)
        values = [median_of(results_of(page), each, figure) / unit for each in wanted]
        return max(values) if who.endswith(">") else min(values)

    return value


def ratio(of: Value, to: Value) -> Value:
    return lambda: of() / to()


def in_json(file: str, *path: str | int, unit: float = 1) -> Value:
    def value() -> float:
        found = json.loads(read(file))
        for key in path:
            found = found[key]
        return found / unit

    return value


def counted(build: str, work: str) -> Value:
    return in_json(COUNTS, "instructions", build, work)


# What is where in a run of the benchmark

LOOP = {"workload": "create_drop", "payload": 48}
LISTS = {"workload": "e1_list_churn", "variant": "text"}
BURST = {"workload": "e2_packet_burst", "variant": "burst", "payload": 48}
HAND_OFF = {"workload": "e5_handoff", "variant": "bursts", "payload": 48}
REPLACE = {"workload": "e7_random_replacement", "variant": "replace", "payload": 48, "threads": 2, "live": 10000}
TREE = {"workload": "e8_teardown", "variant": "tree", "live": 2000000}
RECYCLED = {"workload": "e9_recycled", "payload": 65536, "contender": "pooled_recycled"}
LIVE = {"workload": "e10_resident", "variant": "live"}
AGED = {"workload": "e11_aging", "variant": "list"}
STEADY = {"workload": "e12_latency", "variant": "steady"}
REMOTE = {"workload": "e12_latency", "variant": "remote"}
LARGE = {"workload": "e13_large", "payload": 65536}
MEBIBYTE = {"workload": "e13_large", "payload": 1048576}
PROGRAM = {"workload": "e14_programs"}
SHUFFLED = {"workload": "boost_pool", "variant": "pool", "step": 1000000}

# README's table: the first words of a row -> what the cell is, which figure is shown, and the contender of `limit`.
COLUMNS = [*MALLOCS, "pooled", "instance", "limit"]
CONTENDERS = {"pooled": "pooled", "instance": "pooled_instance"}
ROWS = {
    "create, drop, one thread": (LOOP, TIME, "one_slot"),
    "1 M created, then all dropped": (BURST, TIME, "bump"),
    "thread A creates": (HAND_OFF, TIME, "two_rings"),
    "two threads, random": (REPLACE, TIME, "thread_local_list"),
    "list of 1 M built": (AGED, TIME, ""),
    "... in comparison": (AGED, "aged_over_fresh", ""),
    "list churn, lists": (LISTS, TIME, ""),
    "list churn": (LISTS, TIME, "raw"),
    "64 KiB, created": ({**LARGE, "variant": "create_drop"}, TIME, ""),
    "8 MiB, created": ({"workload": "e13_large", "variant": "create_drop", "payload": 8388608}, TIME, ""),
    "slowest of 10,000": (REMOTE, "drop_p9999_ns", ""),
}

# The table "At the published counts" of docs/benchmarks.md: first words of a row -> the cell; names -> contenders.
PUBLISHED = {"E1": LISTS, "E2, 48 B": BURST, "E2, 1,500 B": {**BURST, "payload": 1500}}
PUBLISHED_NAMES = {
    "shared_ptr(new)": "new",
    "boost::fast_pool_allocator": "boost_fast_pool",
    "raw pointers": "raw",
    "pooled, incremental": "pooled_incremental",
    "pooled, in a reclaim_scope": "pooled_scope",
}

SOAK = "bench/results/20261124-soak.json"


def quick(where: dict, who: str, figure: str = TIME, unit: float = 1) -> Value:
    return cell(where, who, figure, unit, page=BENCHMARKS)


# Page -> sentences, with N for each figure, and the figures' sources.
MIGRATION = "docs/migration.md"
MIGRATION_COMPILE = "bench/results/20261124-migration-compile.json"

SENTENCES: dict[str, list[tuple[str, list[Value]]]] = {
    MIGRATION: [
        (
            f"`{name}` takes N with GCC 12 and N with Clang 19, with the library N and N"
            if name == "recycle"
            else f"`{name}` takes N and N, with the library N and N",
            [
                in_json(MIGRATION_COMPILE, f"{name}_{compiler}_{how}")
                for how in ("headers", "libpooled")
                for compiler in ("gcc", "clang")
            ],
        )
        for name in ("recycle", "memorypool")
    ],
    README: [
        (
            "takes N ns more per create-and-drop",
            [lambda: cell(LOOP, "pooled_instance")() - cell(LOOP, "pooled")()],
        ),
        ("N resident bytes per live", [cell(LIVE, "pooled", "resident_bytes_per_object")]),
        ("N MiB left after", [cell(LIVE, "pooled", "resident_mib_after_trim")]),
        (
            "is N times the live memory on average, N times at worst",
            [in_json(SOAK, "average"), in_json(SOAK, "worst")],
        ),
    ],
    BENCHMARKS: [
        (
            "N ns to create and drop one, N ns in a queue of 32: less than glibc (N and N), but tcmalloc takes N and N",
            [
                quick({**LARGE, "variant": variant}, who)
                for who in ("pooled", "make_shared@glibc", "make_shared@tcmalloc")
                for variant in ("create_drop", "queue")
            ],
        ),
        (
            "1 MiB takes N ns in the queue (glibc N), and N us when another thread drops it (mimalloc N us).",
            [
                quick({**MEBIBYTE, "variant": "queue"}, "pooled"),
                quick({**MEBIBYTE, "variant": "queue"}, "make_shared@glibc"),
                quick({**MEBIBYTE, "variant": "hand_over"}, "pooled", TIME, 1000),
                quick({**MEBIBYTE, "variant": "hand_over"}, "make_shared@mimalloc", TIME, 1000),
            ],
        ),
        (
            "An `object_pool` takes N and N ns for 64 KiB",
            [quick({**RECYCLED, "variant": variant}, "pooled_recycled") for variant in ("loop", "held")],
        ),
        (
            "as raw pointers do (N ns): N ns, tcmalloc N.",
            [quick(LISTS, who) for who in ("raw", "pooled", "make_shared@tcmalloc")],
        ),
        (
            "N ns to create and drop, N ns from the default pool. `make_rc` from the default pool takes N ns.",
            [quick(LOOP, who) for who in ("pooled_instance", "pooled", "pooled_rc")],
        ),
        (
            "N ns, mimalloc N; a bump pointer takes N.",
            [quick(BURST, who) for who in ("pooled", "make_shared@mimalloc", "bump")],
        ),
        (
            "takes N times as long as on glibc and JSON documents N times",
            [
                ratio(
                    quick({**PROGRAM, "variant": variant}, "pooled"),
                    quick({**PROGRAM, "variant": variant}, "make_shared@glibc"),
                )
                for variant in ("capture", "json")
            ],
        ),
        (
            "drop is N us and those of the mallocs are N to N us,",
            [quick(STEADY, who, "drop_p9999_ns", 1000) for who in ("pooled", "make_shared", "make_shared>")],
        ),
        (
            "on another thread it is N us, the best malloc's N.",
            [quick(REMOTE, who, "drop_p9999_ns", 1000) for who in ("pooled", "make_shared")],
        ),
        (
            "The 99.9th, in steady replacement, is N us for `pooled` and N to N us for the mallocs.",
            [quick(STEADY, who, "drop_p999_ns", 1000) for who in ("pooled", "make_shared", "make_shared>")],
        ),
        ("N ns per node, mimalloc N.", [quick(TREE, "pooled"), quick(TREE, "make_shared@mimalloc")]),
        ("included in them: N ns at the median", [quick(STEADY, "pooled", "counter_p50_ns")]),
    ],
    "docs/compiled-library.md": [
        (
            "a create-and-drop takes N instructions with the headers alone and N with either library",
            [counted("headers", "make_shared"), counted("shared", "make_shared")],
        ),
        ("and N with either library", [counted("static", "make_shared")]),
    ],
    "docs/debugging.md": [
        (
            "N instructions instead of N for a random replacement with `make_shared`",
            [counted("hardened", "replace"), counted("headers", "replace")],
        ),
        (
            "N instead of N for a packet of 48 bytes in a burst",
            [counted("hardened", "burst"), counted("headers", "burst")],
        ),
    ],
    "docs/migration/pmr.md": [
        ("some N KiB a resource", [in_json(COUNTS, "resident_bytes", "pool", unit=1024)]),
        ("and N KiB and more a thread", [in_json(COUNTS, "resident_bytes", "thread", unit=1024)]),
    ],
    "docs/pools.md": [
        (
            "about N KiB for its own structures, and N KiB for each thread",
            [in_json(COUNTS, "resident_bytes", each, unit=1024) for each in ("pool", "thread")],
        ),
    ],
}

# Words that stand for a figure: page -> the words, the figure, and between which values they are true.
WORDS: dict[str, list[tuple[str, Value, float, float]]] = {
    README: [
        (
            "tcmalloc keeps 64 KiB blocks in its thread cache and is up to twice as fast there",
            ratio(
                cell({**LARGE, "variant": "create_drop"}, "pooled"),
                cell({**LARGE, "variant": "create_drop"}, "make_shared@tcmalloc"),
            ),
            1.3,
            2.0,
        ),
    ],
    BENCHMARKS: [
        (
            "mimalloc is as fast as the pool in both",
            ratio(
                quick({**PROGRAM, "variant": variant}, "pooled"),
                quick({**PROGRAM, "variant": variant}, "make_shared@mimalloc"),
            ),
            0.9,
            1.1,
        )
        for variant in ("capture", "json")
    ],
    "docs/migration.md": [
        (
            "shuffled order therefore takes a fifth of the time",
            ratio(cell(SHUFFLED, "pooled_compat"), cell(SHUFFLED, "boost_original")),
            0.17,
            0.25,
        ),
    ],
    "docs/one-allocation.md": [
        (
            words,
            ratio(cell(REMOTE, "pooled", f"{call}_p9999_ns"), cell(REMOTE, "make_shared", f"{call}_p9999_ns")),
            0,
            most,
        )
        for call, words, most in (
            ("drop", "99.99 % of pooled's drops complete in about the time of the best malloc's, or less", 1.1),
            ("create", "99.99 % of its creates in up to 1.6 times that", 1.6),
        )
    ],
}

# Figures of the text that nobody measured: limits and settings of the code. Page -> words, N is the figure; where the
# code has it.
SETTINGS: dict[str, list[tuple[str, str, str]]] = {
    page: [
        (words, "include/pooled/pool/options.hpp", r"release_unused_after\{(\d+)\}"),
    ]
    for page, words in {
        README: "unused for N ms",
        "docs/pools.md": "not needed for N ms",
    }.items()
} | {
    "docs/trace-format.md": [
        ("a processor time of N µs or more", "bench/profile/recorder/clock.hpp", r"k_noted_ns = (\d+)'000;"),
    ],
    "docs/object-pool.md": [
        ("offered at most N µs before", "include/pooled/object/wait_queue.hpp", r"k_take_back_ns = (\d+)'000;"),
    ],
}

# Which figures are measured: decimals, and what has a unit of time or counts times, instructions or a percentage.
UNITS = r"ns|us|µs|ms|s|seconds|microseconds|milliseconds|minutes|times|instructions|%"
MEASURED = re.compile(
    r"(?<![\w.])(?:\d+\.\d+(?!\.?\d)|\d+(?:,\d{3})*(?=(?:(?: (?:to|and|against|instead of|in place of) |–)[\d.,]+)?"
    rf" ?(?:{UNITS})(?![\w/])))"
)
VERSIONS = (
    r"(?:CMake|Python|Boost\.Pool|foonathan/memory|Debian|GCC|Clang|glibc|libstdc\+\+|License|py-cpuinfo|psutil|msgspec|pydantic|actionlint|Meson|"
    r"version|before|≥)\s+\d[\d.]*|\b(?:Apache|BSD|BSL|EPL|GPL|MPL)-\d[\d.]*"
)
# Versions of programs and licences, and the names of percentiles.
NOT_MEASURED = re.compile(rf"{VERSIONS}|99(?:\.9+)?(?:th\b| %)")
# Their tables are checked here and by poolbench's tests; the figures between are settings of poolbench.
OF_POOLBENCH = {BENCHMARKS, "docs/profile.md"}
LEFT_OUT = re.compile(
    r"^```.*?^```$|<!-- measured -->.*?<!-- end -->|!\[.*?\]|\]\([^)]*\)|`[^`]*`|^\| (?:work|source) \|.*?\n\n",
    re.MULTILINE | re.DOTALL,
)


def pattern_of(words: str) -> re.Pattern[str]:
    """Any space matches a line break, and N a figure."""
    escaped = r"\s+".join(re.escape(part) for part in words.split())
    return re.compile(re.sub(r"\bN\b", r"(\\d[\\d.,]*\\d|\\d)", escaped))


def digits_of(shown: str) -> int:
    return len(shown.partition(".")[2])


def in_words(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def is_rounded(shown: str, value: float) -> bool:
    return abs(float(shown.replace(",", "")) - value) <= 0.5000001 * 10 ** -digits_of(shown)


def put(text: str, found: re.Match[str], values: list[float]) -> str:
    """The figures of a sentence in place of those it has, where these are not what was measured."""
    for i in range(len(values), 0, -1):
        if not is_rounded(found[i], values[i - 1]):
            start, end = found.span(i)
            text = text[:start] + in_words(values[i - 1], digits_of(found[i])) + text[end:]
    return text


def cells_of(line: str) -> list[str]:
    return [each.strip() for each in line.strip().strip("|").split("|")]


def put_cells(line: str, values: dict[int, float]) -> str:
    """A row of a table, with the first figure of each column of `values`."""
    cells = line.split("|")
    for column, value in values.items():
        found = re.search(r"\d[\d,]*(?:\.\d+)?", cells[column + 1])
        if not is_rounded(found[0], value):
            shown = in_words(value, digits_of(found[0]))
            cells[column + 1] = cells[column + 1][: found.start()] + shown + cells[column + 1][found.end() :]
    return "|".join(cells)


def readme_row(line: str, before: tuple | None) -> tuple[str, tuple]:
    title, *cells = cells_of(line)
    if title.startswith("the same, 1500-byte"):
        where, figure, limit = ({**before[0], "payload": 1500}, *before[1:])
    else:
        where, figure, limit = next(row for start, row in ROWS.items() if title.startswith(start))
    values = {}
    for i, (column, text) in enumerate(zip(COLUMNS, cells, strict=True), 1):
        if not re.match(r"\W*\d", text):
            continue
        contender = limit if column == "limit" else CONTENDERS.get(column, "make_shared")
        if "reclaim_scope" in title:
            contender = "pooled_scope"
        malloc = column if column in MALLOCS else "glibc"
        values[i] = cell(where, f"{contender}@{malloc}", figure)()
    return put_cells(line, values), (where, figure, limit)


def published_row(line: str, where: dict, file: str) -> tuple[str, dict]:
    title, *cells = cells_of(line.replace("`", ""))
    work, _, name = title.rpartition(": ")
    if work:
        where = next(each for start, each in PUBLISHED.items() if work.startswith(start))
    contender = PUBLISHED_NAMES.get(name, name)
    values = {
        i: median_of(file, {**where, "contender": contender, "malloc": malloc}, TIME)
        for i, (malloc, text) in enumerate(zip(MALLOCS, cells, strict=True), 1)
        if text
    }
    return put_cells(line, values), where


def compiled_row(line: str, known: dict) -> str:
    columns = [(compiler, kind) for compiler in ("g++", "clang++-19") for kind in ("optimized", "libpooled")]
    title, *cells = cells_of(line)
    header = title.strip("`")
    return put_cells(line, {i: known[(header, *columns[i - 1])] for i, text in enumerate(cells, 1) if text})


def rows_behind(text: str, start: str, write: Callable[[str], str]) -> str:
    """Each row of the table that begins with `start`, as `write` has it."""
    first = text.index(start)
    table = text[first:].split("\n\n")[0]
    head, rows = table.splitlines()[:2], table.splitlines()[2:]
    return text[:first] + "\n".join(head + [write(row) for row in rows]) + text[first + len(table) :]


def written_tables(page: str, text: str) -> str:
    state: list = [None]

    def row(of: Callable[[str, object], tuple]) -> Callable[[str], str]:
        def write(line: str) -> str:
            line, state[0] = of(line, state[0])
            return line

        return write

    if page == README:
        return rows_behind(text, "| work | glibc |", row(readme_row))
    if page == BENCHMARKS:
        file = re.search(r"\((?:\.\./)?(bench/results/[\w-]+-full\.jsonl)\)", text)[1]
        return rows_behind(text, "| ns | glibc |", row(lambda line, where: published_row(line, where, file)))
    if page == "docs/compiled-library.md":
        file = re.search(r"\[(bench/results/\S+-compile-time\.json)\]", text)[1]
        figures = json.loads(read(file))["figures"]
        known = {(each["header"], each["compiler"], each["kind"]): each["cpu_seconds"] for each in figures}
        return rows_behind(text, "| source | GCC", lambda line: compiled_row(line, known))
    return text


def written(page: str) -> str:
    """The page with the figures of its sources."""
    text = written_tables(page, read(page))
    for words, values in SENTENCES.get(page, []):
        found = list(pattern_of(words).finditer(text))
        if not found:
            raise LookupError(f"{page} does not say: {words}")
        for each in reversed(found):
            text = put(text, each, [value() for value in values])
    return text


def untrue_words(page: str) -> list[str]:
    text = " ".join(read(page).split())
    missing = [words for words, *_ in WORDS.get(page, []) if words not in text]
    wrong = [f"{words}: {value():.3g}" for words, value, low, high in WORDS.get(page, []) if not low <= value() <= high]
    return [f"does not say: {words}" for words in missing] + wrong


def unlike_settings(page: str) -> list[str]:
    """Sentences of SETTINGS that do not say what the code has."""
    wrong = []
    for words, file, setting in SETTINGS.get(page, []):
        found = pattern_of(words).search(read(page))
        if not found or found[1] != re.search(setting, read(file))[1]:
            wrong.append(words)
    return wrong


def without_source(page: str, text: str) -> list[str]:
    """Measured figures of a page that no results file stands behind, each with the words around it."""
    if page in OF_POOLBENCH or page == "docs/mechanisms.md":  # mechanisms.json has them
        return []

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"\S", "_", found[0])

    for sentence, *_ in (*SENTENCES.get(page, []), *SETTINGS.get(page, [])):
        for found in pattern_of(sentence).finditer(text):
            for start, end in (found.span(i) for i in range(1, len(found.groups()) + 1)):
                text = text[:start] + "_" * (end - start) + text[end:]
    text = NOT_MEASURED.sub(blank, LEFT_OUT.sub(blank, text))
    return [" ".join(text[max(0, m.start() - 40) : m.end() + 20].split()) for m in MEASURED.finditer(text)]


# What docs/mechanisms.md measures: decimals, and what has a unit of time, or counts times or instructions.
OF_MECHANISMS = re.compile(
    r"\d+\.\d+|\d+(?:,\d{3})*(?=(?: (?:to|and|against) [\d.,]+)? (?:ns|us|ms|times|instructions)\b)"
)


def mechanism_figures() -> dict[str, list[str]]:
    """Section of docs/mechanisms.md -> its figures in their order."""
    text = re.sub(r"!\[.*?\]\(.*?\)", "", read("docs/mechanisms.md"), flags=re.DOTALL)
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    found = {title: OF_MECHANISMS.findall(" ".join(words.split())) for title, words in sections.items()}
    return {title: figures for title, figures in found.items() if figures}


def record_mechanisms() -> None:
    """Sections whose figures changed get the commit and the date of the page's last change; the machine stays."""
    command = ["git", "-C", ROOT, "log", "-1", "--abbrev=10", "--format=%h %as", "--", "docs/mechanisms.md"]
    commit, date = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    known = json.loads(read("docs/mechanisms.json"))
    record = {}
    for title, figures in mechanism_figures().items():
        record[title] = known.get(title, {"machine": processor()})
        if record[title].get("figures") != figures:
            machine = record[title]["machine"]
            record[title] = {"commit": commit, "date": date, "machine": machine, "figures": figures}
            print(f"docs/mechanisms.json: {title}")
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    (ROOT / "docs/mechanisms.json").write_text(text, encoding="utf-8")


def measure(examples: Path) -> None:
    """Instructions and memory, compile times, then the examples. On a quiet machine: half an hour."""
    page = read("docs/compiled-library.md")
    file = re.search(r"\[(bench/results/\S+-compile-time\.json)\]", page)[1]
    headers = re.findall(r"^\| `(pooled/\S+)` \|", page, re.MULTILINE)
    kinds = ["--kind", "optimized", "--kind", "libpooled"]
    for tool in (
        ["measure_counts.py"],
        ["compile_time.py", *kinds, "--output", str(ROOT / file), *headers],
        ["measure_examples.py", "--bin", str(examples)],
    ):
        subprocess.run([sys.executable, str(ROOT / "tools" / tool[0]), *tool[1:]], check=True)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--measure", type=Path, metavar="EXAMPLES", help="with the examples of this directory")
    options = parser.parse_args(words)
    if options.record:
        record_mechanisms()
    if options.measure:
        measure(options.measure.resolve())
        options.write = True
    if options.results:
        name = options.results.resolve().relative_to(ROOT).as_posix()
        for page in (README, BENCHMARKS):
            (ROOT / page).write_text(NAMED_RESULTS.sub(name, read(page)), encoding="utf-8")
    problems = 0
    for page in PAGES:
        text = written(page)
        if text != read(page):
            if options.write or options.results:
                (ROOT / page).write_text(text, encoding="utf-8")
                print(f"{page}: written")
            else:
                problems += 1
                print(f"{page}: figures differ from the results files; --write writes them")
        for each in [*untrue_words(page), *unlike_settings(page)]:
            problems += 1
            print(f"{page}: {each}")
        for each in without_source(page, read(page)):
            problems += 1
            print(f"{page}: no source for the figure in: {each}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
