# SPDX-License-Identifier: BSL-1.0
"""A toolchain that is not there, or can not make a program, is told apart from one that works."""

import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import run_bench  # noqa: E402


class ToolchainTest(unittest.TestCase):
    def setUp(self):
        (run_bench.ROOT / "build").mkdir(exist_ok=True)

    def test_a_compiler_that_is_not_installed_is_named(self):
        absent = run_bench.why_absent(run_bench.Toolchain("unit-test", "no-such-compiler", [], "none"))
        self.assertEqual(absent, "no-such-compiler is not installed")

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_a_compiler_without_its_standard_library_is_named(self):
        toolchain = run_bench.Toolchain("unit-test", "g++", ["-nostdinc++"], "none")
        self.assertIn("can not link a program", run_bench.why_absent(toolchain))

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_a_compiler_that_works_is_taken(self):
        self.assertIsNone(run_bench.why_absent(run_bench.Toolchain("unit-test", "g++", [], "none")))


if __name__ == "__main__":
    unittest.main()
