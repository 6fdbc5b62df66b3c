# SPDX-License-Identifier: BSL-1.0
"""What including the library costs its users: preprocessed lines, and standard headers that it must not include."""

import re
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "include"
# GCC 12: 73,379 lines, of which <memory> alone is 35,486; the difference of a few hundred is for small changes.
MOST_LINES = 74_500
HEAVY = {"iostream", "fstream", "sstream", "iomanip", "regex", "map", "set", "unordered_map", "list", "deque", "thread"}
HEAVY |= {"future", "filesystem", "ranges", "random", "locale", "format", "condition_variable", "any", "variant"}

# What a build that looks for leaks includes besides costs no other one.
TRACKED_ALONE = re.compile(r"^#if POOLED_TRACKED\n.*?^#endif", re.MULTILINE | re.DOTALL)


class IncludeCostTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("g++-12"), "the bound is for GCC 12")
    def test_the_umbrella_header_keeps_to_its_preprocessed_lines(self):
        command = ["g++-12", "-std=c++20", f"-I{INCLUDE}", "-E", "-P", "-x", "c++", "-"]
        source = "#include <pooled/pooled.hpp>\n"
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
        self.assertLessEqual(done.stdout.count("\n"), MOST_LINES)

    def test_no_header_includes_a_heavy_one_of_the_standard_library(self):
        for header in sorted((INCLUDE / "pooled").rglob("*.hpp")):
            if header.parent.name == "compat":
                continue
            text = TRACKED_ALONE.sub("", header.read_text(encoding="utf-8"))
            included = set(re.findall(r"^#include <(\w+)>", text, re.MULTILINE))
            self.assertEqual(included & HEAVY, set(), header.relative_to(INCLUDE).as_posix())


if __name__ == "__main__":
    unittest.main()
