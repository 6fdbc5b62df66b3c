# SPDX-License-Identifier: BSL-1.0
"""The compile-time tool finds the public headers and writes what each costs."""

import contextlib
import io
import json
import shutil
import tempfile
import unittest
from pathlib import Path

import compile_time


class CompileTimeTest(unittest.TestCase):
    def test_the_public_headers_are_found_each_with_a_line_that_uses_it(self):
        found = compile_time.public_headers(compile_time.ROOT / "include")
        self.assertLessEqual(
            {"pooled/pooled.hpp", "pooled/compat/recycle.hpp", "pooled/compat/boost_pool.hpp"}, set(found)
        )
        self.assertIn("pooled::make_shared<int>", found["pooled/make_shared.hpp"])
        self.assertIn("pooled::object_pool<int>", found["pooled/object_pool.hpp"])

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_cpu_seconds_of_a_header_and_of_what_it_is_compared_with_are_written(self):
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()):
            (Path(directory) / "pooled").mkdir()
            (Path(directory) / "pooled/pooled.hpp").write_text(
                "#include <memory>\nnamespace pooled { using std::make_shared; }\n"
            )
            output = Path(directory) / "out.json"
            words = ["--include", directory, "--output", str(output), "--compiler", "g++", "--runs", "1"]
            self.assertEqual(compile_time.main([*words, "--kind", "plain"]), 0)
            figures = {each["header"]: each["cpu_seconds"] for each in json.loads(output.read_text())["figures"]}
        self.assertLessEqual({"<memory>", "pooled/pooled.hpp"}, set(figures))
        self.assertTrue(all(seconds > 0 for seconds in figures.values()))
