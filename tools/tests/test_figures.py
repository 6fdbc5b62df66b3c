# SPDX-License-Identifier: BSL-1.0
"""Each measured figure of README.md and docs/ is that of the results file it is read from (tools/figures.py), and a
measured figure without such a file is an error. Those of docs/mechanisms.md are those of docs/mechanisms.json.

The latter compare the library with what it might have been, so nobody can measure them again with the code of today.
The file says for each section which commit brought the figures, and on which machine they were measured."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import figures  # noqa: E402

ROOT = figures.ROOT


class FiguresTest(unittest.TestCase):
    def test_each_page_has_the_figures_of_its_results_files(self):
        for page in figures.PAGES:
            wrong = [
                f"{shown}\n  measured: {measured}"
                for shown, measured in zip(
                    figures.read(page).splitlines(), figures.written(page).splitlines(), strict=True
                )
                if shown != measured
            ]
            self.assertEqual(wrong, [], f"{page}: run tools/figures.py --write")

    def test_words_that_stand_for_a_figure_are_true(self):
        for page in figures.WORDS:
            self.assertEqual(figures.untrue_words(page), [], page)

    def test_settings_are_those_of_the_code(self):
        for page in figures.SETTINGS:
            self.assertEqual(figures.unlike_settings(page), [], page)

    def test_no_measured_figure_is_without_a_source(self):
        for page in figures.PAGES:
            self.assertEqual(figures.without_source(page, figures.read(page)), [], page)

    def test_a_new_figure_without_a_source_is_noticed(self):
        page = figures.README
        text = figures.read(page)
        for words in (
            "It takes 12 ns.",
            "This is 3.4 of that.",
            "It is 5 times as fast.",
            "Saves 12 %.",
            "Less than 3 us.",
        ):
            self.assertEqual(len(figures.without_source(page, text + words)), 1, words)
        for words in ("CMake 3.28", "Apache-2.0", "the 99.9th percentile", "64 KiB", "version 0.2.0", "`3.5 ns`"):
            self.assertEqual(figures.without_source(page, text + words), [], words)

    def test_a_figure_keeps_its_digits_when_it_is_written(self):
        found = figures.pattern_of("takes N ns, N of M").search("takes 1,234\nns, 0.50 of M")
        self.assertEqual(figures.put(found.string, found, [9876.5, 0.499]), "takes 9,876\nns, 0.50 of M")
        self.assertEqual(figures.put_cells("| a | **1.5** (b) | |", {1: 2.75}), "| a | **2.8** (b) | |")

    def test_each_results_file_is_committed(self):
        if not (ROOT / ".git").exists():
            self.skipTest("not a checkout")
        listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
        named = {
            file for page in figures.PAGES for file in re.findall(r"bench/results/[\w-]+\.jsonl?", figures.read(page))
        }
        self.assertEqual({figures.COUNTS, figures.SOAK, *named} - set(listed.split()), set())

    def test_both_pages_take_their_figures_from_the_same_run(self):
        self.assertEqual(figures.results_of(figures.README), figures.results_of(figures.BENCHMARKS))

    def test_figures_of_the_mechanisms_are_those_of_their_record(self):
        record = json.loads((ROOT / "docs/mechanisms.json").read_text(encoding="utf-8"))
        self.assertEqual(
            {title: each["figures"] for title, each in record.items()},
            figures.mechanism_figures(),
            "run tools/figures.py --record",
        )
        for title, each in record.items():
            self.assertRegex(each["commit"], r"^[0-9a-f]{10}$", title)
            self.assertRegex(each["date"], r"^\d{4}-\d\d-\d\d$", title)
            self.assertTrue(each["machine"], title)

    def test_the_compiled_library_s_table_has_each_measured_header(self):
        page = figures.read("docs/compiled-library.md")
        file = re.search(r"\[(bench/results/\S+-compile-time\.json)\]", page)[1]
        measured = {each["header"] for each in json.loads(figures.read(file))["figures"]}
        self.assertEqual({header for header in measured if f"| `{header}` |" not in page}, set())


if __name__ == "__main__":
    unittest.main()
