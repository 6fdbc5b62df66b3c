# SPDX-License-Identifier: BSL-1.0
"""Figures in README.md and docs/benchmarks.md are those of the results files that they name: a median over the samples
of a cell, rounded. Those of docs/mechanisms.md are those of docs/mechanisms.json.

They compare the library with what it might have been, so nobody can measure them again with the code of today. The
file says for each section which commit brought the figures, and on which machine they were measured."""

import json
import re
import statistics
import unittest
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MECHANISMS = ROOT / "docs/mechanisms.md"
# What is measured: decimals, and what has a unit of time, or counts times or instructions.
MEASURED = re.compile(r"\d+\.\d+|\d+(?:,\d{3})*(?=(?: (?:to|and|against) [\d.,]+)? (?:ns|us|ms|times|instructions)\b)")
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLUMNS = ["glibc", "tcmalloc", "jemalloc", "mimalloc", "pooled", "instance", "limit"]
# The first words of a row -> what the cell is, which figure is shown, and the contender of the column `limit`.
TIME = "ns_per_op"
ROWS = {
    "create, drop, one thread": ({"workload": "create_drop", "payload": 48}, TIME, "one_slot"),
    "1 M created, then all dropped": ({"workload": "e2_packet_burst", "variant": "burst", "payload": 48}, TIME, "bump"),
    "thread A creates": ({"workload": "e5_handoff", "variant": "bursts", "payload": 48}, TIME, "two_rings"),
    "two threads, random": (
        {"workload": "e7_random_replacement", "variant": "replace", "payload": 48, "threads": 2, "live": 10000},
        TIME,
        "thread_local_list",
    ),
    "list of 1 M built": ({"workload": "e11_aging", "variant": "list"}, TIME, ""),
    "... in comparison": ({"workload": "e11_aging", "variant": "list"}, "aged_over_fresh", ""),
    "list churn, lists": ({"workload": "e1_list_churn", "variant": "text"}, TIME, ""),
    "list churn": ({"workload": "e1_list_churn", "variant": "text"}, TIME, "raw"),
    "64 KiB, created": ({"workload": "e13_large", "variant": "create_drop", "payload": 65536}, TIME, ""),
    "8 MiB, created": ({"workload": "e13_large", "variant": "create_drop", "payload": 8388608}, TIME, ""),
    "slowest of 10,000": ({"workload": "e12_latency", "variant": "remote"}, "drop_p9999_ns", ""),
}
CONTENDERS = {"pooled": "pooled", "instance": "pooled_instance"}
LARGE = {"workload": "e13_large", "payload": 65536}
MEBIBYTE = {"workload": "e13_large", "payload": 1048576}
LOOP = {"workload": "create_drop", "payload": 48}
BURST = {"workload": "e2_packet_burst", "variant": "burst", "payload": 48}
STEADY = {"workload": "e12_latency", "variant": "steady"}
TREE = {"workload": "e8_teardown", "variant": "tree", "live": 2000000}
MALLOCS = COLUMNS[:4]
# What docs/benchmarks.md says where pooled loses, with N for each figure, and the figures: a cell, contender@malloc (of
# several mallocs the least, with > the greatest), the figure, and by what to divide it.
LOSSES = {
    "N ns to create and drop one, N ns in a queue of 32: less than glibc (N and N), but tcmalloc takes N and N.": [
        ({**LARGE, "variant": variant}, who)
        for who in ("pooled", "make_shared@glibc", "make_shared@tcmalloc")
        for variant in ("create_drop", "queue")
    ],
    "1 MiB takes N ns in the queue (glibc N), and N us when another thread drops it (mimalloc N us).": [
        ({**MEBIBYTE, "variant": "queue"}, "pooled"),
        ({**MEBIBYTE, "variant": "queue"}, "make_shared@glibc"),
        ({**MEBIBYTE, "variant": "hand_over"}, "pooled", TIME, 1000),
        ({**MEBIBYTE, "variant": "hand_over"}, "make_shared@mimalloc", TIME, 1000),
    ],
    "as raw pointers do (N ns): N ns, tcmalloc N.": [
        ({"workload": "e1_list_churn", "variant": "text"}, who) for who in ("raw", "pooled", "make_shared@tcmalloc")
    ],
    "N ns to create and drop, N ns from the default pool. `make_rc` from the default pool takes N ns.": [
        (LOOP, who) for who in ("pooled_instance", "pooled", "pooled_rc")
    ],
    "N ns, mimalloc N; a bump pointer takes N.": [(BURST, who) for who in ("pooled", "make_shared@mimalloc", "bump")],
    "drop is N us and those of the mallocs are N to N us,": [
        (STEADY, who, "drop_p9999_ns", 1000) for who in ("pooled", "make_shared", "make_shared>")
    ],
    "on another thread it is N us, the best malloc's N.": [
        ({"workload": "e12_latency", "variant": "remote"}, who, "drop_p9999_ns", 1000)
        for who in ("pooled", "make_shared")
    ],
    "The 99.9th, in steady replacement, is N us for `pooled` and N to N us for the mallocs.": [
        (STEADY, who, "drop_p999_ns", 1000) for who in ("pooled", "make_shared", "make_shared>")
    ],
    "N ns per node, mimalloc N.": [(TREE, "pooled"), (TREE, "make_shared@mimalloc")],
}


def shown(cell: str) -> tuple[float, int] | None:
    """The number in a cell of a table, and how many digits it has behind the point."""
    found = re.match(r"\W*([\d,]+)(?:\.(\d+))?", cell)
    return (float(found[0].strip("* ").replace(",", "")), len(found[2] or "")) if found else None


def samples_of(file: Path) -> list[dict]:
    """Of GCC's optimised program, whose figures they are."""
    records = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    shown_ones = {"toolchain": "gcc", "optimisation": "-O3"}
    return [each for each in records if each["record"] == "sample" and shown_ones.items() <= each["cell"].items()]


def median_of(samples: list[dict], wanted: dict, figure: str) -> float:
    found = defaultdict(list)
    for each in samples:
        if all(each["cell"].get(key) == value for key, value in wanted.items()):
            value = each[figure] if figure in each else each["figures"][figure]
            found[json.dumps(each["cell"], sort_keys=True)].append(value)
    if len(found) != 1:
        raise AssertionError(f"{len(found)} cells are {wanted}")
    return statistics.median(next(iter(found.values())))


def mechanism_figures() -> dict[str, list[str]]:
    """Section of docs/mechanisms.md -> its figures in their order."""
    text = re.sub(r"!\[.*?\]\(.*?\)", "", MECHANISMS.read_text(encoding="utf-8"), flags=re.DOTALL)
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    found = {title: MEASURED.findall(" ".join(words.split())) for title, words in sections.items()}
    return {title: figures for title, figures in found.items() if figures}


class FiguresTest(unittest.TestCase):
    def assert_rounded(self, cell: str, value: float, what: str):
        number, digits = shown(cell)
        self.assertLessEqual(abs(number - value), 0.5000001 * 10**-digits, f"{what}: {cell} is shown, {value} measured")

    def test_the_table_is_that_of_its_results_file(self):
        file = ROOT / re.search(r"^From \[(bench/results/[\w-]+\.jsonl)\]", README, re.MULTILINE)[1]
        samples = samples_of(file)
        table = README[README.index("| work | glibc |") :].split("\n\n")[0].splitlines()[2:]
        before = None
        for line in table:
            title, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            if title.startswith("the same, 1500-byte"):
                cell, figure, limit = ({**before[0], "payload": 1500}, *before[1:])
            else:
                cell, figure, limit = next(row for start, row in ROWS.items() if title.startswith(start))
            before = (cell, figure, limit)
            for column, text in zip(COLUMNS, cells, strict=True):
                if shown(text) is None:
                    continue
                malloc = column if column in COLUMNS[:4] else "glibc"
                contender = limit if column == "limit" else CONTENDERS.get(column, "make_shared")
                if "reclaim_scope" in title:
                    contender = "pooled_scope"
                value = median_of(samples, {**cell, "contender": contender, "malloc": malloc}, figure)
                self.assert_rounded(text, value, f"{title}, {column}")

    def test_what_an_instance_costs_is_that_of_the_results_file(self):
        file = ROOT / re.search(r"^From \[(bench/results/[\w-]+\.jsonl)\]", README, re.MULTILINE)[1]
        one, default = (
            median_of(samples_of(file), {**LOOP, "contender": who}, TIME) for who in ("pooled_instance", "pooled")
        )
        self.assert_rounded(re.search(r"takes\s+([\d.]+) ns more per", README)[1], one - default, "an instance")

    def test_resident_memory_is_that_of_its_results_files(self):
        file = ROOT / re.search(r"^From \[(bench/results/[\w-]+\.jsonl)\]", README, re.MULTILINE)[1]
        live = {"workload": "e10_resident", "variant": "live", "contender": "pooled"}
        words = re.search(r"([\d.]+) resident bytes per live `shared_ptr`.*?([\d.]+) MiB left after", README, re.DOTALL)
        samples = samples_of(file)
        self.assert_rounded(words[1], median_of(samples, live, "resident_bytes_per_object"), "bytes a live object")
        self.assert_rounded(words[2], median_of(samples, live, "resident_mib_after_trim"), "MiB after trim()")
        words = re.search(
            r"is ([\d.]+) times the live memory on average, ([\d.]+) times at worst\s+\(\[results\]\((.*?)\)", README
        )
        soak = json.loads((ROOT / words[3]).read_text(encoding="utf-8"))
        self.assert_rounded(words[1], soak["average"], "soak, average")
        self.assert_rounded(words[2], soak["worst"], "soak, worst")

    def test_figures_of_the_mechanisms_are_those_of_their_record(self):
        record = json.loads((ROOT / "docs/mechanisms.json").read_text(encoding="utf-8"))
        self.assertEqual({title: each["figures"] for title, each in record.items()}, mechanism_figures())
        for title, each in record.items():
            self.assertRegex(each["commit"], r"^[0-9a-f]{10}$", title)
            self.assertRegex(each["date"], r"^\d{4}-\d\d-\d\d$", title)
            self.assertTrue(each["machine"], title)


class LossesTest(unittest.TestCase):
    def test_figures_where_pooled_loses_are_those_of_the_results_file(self):
        page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
        section = " ".join(page.split("\n## Where pooled loses\n")[1].split("\n## ")[0].split())
        samples = samples_of(ROOT / re.search(r"`(bench/results/[\w-]+\.jsonl)`", section)[1])
        for sentence, figures in LOSSES.items():
            found = re.search(re.escape(sentence).replace("N", r"(\d[\d.]*\d|\d)"), section)
            self.assertTrue(found, sentence)
            for text, (cell, who, *rest) in zip(found.groups(), figures, strict=True):
                figure, unit = rest or (TIME, 1)
                contender, _, malloc = who.rstrip(">").partition("@")
                mallocs = [malloc or "glibc"] if malloc or contender != "make_shared" else MALLOCS
                wanted = ({**cell, "contender": contender, "malloc": each} for each in mallocs)
                values = [median_of(samples, each, figure) / unit for each in wanted]
                self.assert_rounded(text, max(values) if who.endswith(">") else min(values), f"{sentence}: {who}")

    def test_figures_at_the_published_counts_are_those_of_the_results_file(self):
        page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
        section = page.split("\n## At the published counts")[1].split("\n## ")[0]
        samples = samples_of(ROOT / re.search(r"\((?:\.\./)?(bench/results/[\w-]+\.jsonl)\)", section)[1])
        published = {
            "E1": {"workload": "e1_list_churn", "variant": "text"},
            "E2, 48 B": BURST,
            "E2, 1,500 B": {**BURST, "payload": 1500},
        }
        words = {"shared_ptr(new)": "new", "boost::fast_pool_allocator": "boost_fast_pool", "raw pointers": "raw"}
        words |= {"pooled, incremental": "pooled_incremental", "pooled, in a reclaim_scope": "pooled_scope"}
        wanted = {}
        for line in section[section.index("| ns |") :].splitlines()[2:]:
            if not line.startswith("|"):
                break
            title, *cells = (cell.strip() for cell in line.replace("`", "").strip("|").split("|"))
            work, _, name = title.rpartition(": ")
            if work:
                wanted = next(cell for start, cell in published.items() if work.startswith(start))
            for malloc, text in zip(MALLOCS, cells, strict=True):
                if text:
                    cell = {**wanted, "contender": words.get(name, name), "malloc": malloc}
                    self.assert_rounded(text, median_of(samples, cell, TIME), f"{title}, {malloc}")

    assert_rounded = FiguresTest.assert_rounded


class CompiledLibraryTest(unittest.TestCase):
    def test_seconds_are_those_of_the_results(self):
        page = (ROOT / "docs/compiled-library.md").read_text(encoding="utf-8")
        file = re.search(r"\[(bench/results/\S+-compile-time\.json)\]", page)[1]
        figures = json.loads((ROOT / file).read_text(encoding="utf-8"))["figures"]
        known = {(each["header"], each["compiler"], each["kind"]): each["cpu_seconds"] for each in figures}
        columns = [(compiler, kind) for compiler in ("g++", "clang++-19") for kind in ("optimized", "libpooled")]
        rows = re.findall(r"^\| `(\S+)` \|(.*)\|$", page, re.MULTILINE)
        rows = [(header, cells.split("|")) for header, cells in rows if (header, *columns[0]) in known]
        self.assertEqual({header for header, _ in rows}, {header for header, _, _ in known})
        for header, cells in rows:
            for column, cell in zip(columns, cells, strict=True):
                if cell.strip():
                    self.assertEqual(cell.strip(), f"{known[(header, *column)]:.1f}", (header, column))


if __name__ == "__main__":
    unittest.main()
