# SPDX-License-Identifier: BSL-1.0
"""The compile-time tool must find the public headers wherever they lie, and tell what did not compile."""

import contextlib
import io
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import compile_time  # noqa: E402

HEADERS = {
    "pooled/pooled.hpp": '#include "pooled/shared/make_shared.hpp"\n#include <pooled/shared/new_one.hpp>\n',
    "pooled/shared/make_shared.hpp": "#include <memory>\nnamespace pooled { using std::make_shared; }\n",
    "pooled/shared/new_one.hpp": "#error not ready\n",
    "pooled/shared/inner.hpp": "",
    "pooled/other/make_shared.hpp": "",
    "pooled/things/object_pool.hpp": "",
    "pooled/compat/recycle.hpp": "",
    "pooled/compat/recycle_stock.hpp": "",
    "pooled/compat/boost_pool/pool.hpp": "",
}


class CompileTimeTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        for name, text in HEADERS.items():
            path = self.root / "include" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def run_with(self, *arguments):
        self.said = io.StringIO()
        include = ["--include", str(self.root / "include")]
        output = ["--output", str(self.root / "out.json")]
        with contextlib.redirect_stdout(self.said), contextlib.redirect_stderr(self.said):
            return compile_time.main([*include, *output, "--runs", "1", *arguments])

    def figures(self):
        return json.loads((self.root / "out.json").read_text(encoding="utf-8"))["figures"]

    def test_public_headers_are_found_whatever_their_folder_is_called(self):
        found = compile_time.public_headers(self.root / "include")
        self.assertEqual(
            list(found),
            [
                "pooled/pooled.hpp",
                "pooled/shared/make_shared.hpp",
                "pooled/shared/new_one.hpp",
                "pooled/compat/recycle.hpp",
                "pooled/things/object_pool.hpp",
            ],
        )

    def test_each_header_is_compiled_with_a_line_that_uses_it(self):
        found = compile_time.public_headers(self.root / "include")
        self.assertIn("pooled::make_shared<int>", found["pooled/shared/make_shared.hpp"])
        self.assertEqual(found["pooled/shared/new_one.hpp"], "")

    def test_every_public_header_of_the_library_is_found(self):
        found = compile_time.public_headers(compile_time.ROOT / "include")
        stems = {Path(name).stem for name in found}
        self.assertLessEqual({"pooled", "make_shared", "pool", "object_pool", "boost_pool", "recycle"}, stems)

    def test_an_unknown_header_is_refused_with_those_that_there_are(self):
        self.assertEqual(self.run_with("pooled/nothing.hpp"), 2)
        self.assertIn("no public header pooled/nothing.hpp; there are: pooled/pooled.hpp", self.said.getvalue())

    def test_a_compiler_that_is_not_installed_is_named(self):
        self.assertEqual(self.run_with("--compiler", "g++-none"), 1)
        self.assertIn("g++-none is not installed", self.said.getvalue())

    def test_only_gcc_compiles_the_sanitized_form(self):
        self.assertIn("sanitized", compile_time.kinds_of("g++"))
        self.assertIn("sanitized", compile_time.kinds_of("/usr/bin/x86_64-linux-gnu-g++-12"))
        self.assertEqual(compile_time.kinds_of("clang++-19"), ["plain", "optimized", "libpooled"])

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_cpu_seconds_of_header_and_baseline_are_written(self):
        self.assertEqual(self.run_with("pooled/shared/make_shared.hpp", "--compiler", "g++"), 0, self.said.getvalue())
        figures = {(each["header"], each["kind"]): each["cpu_seconds"] for each in self.figures()}
        self.assertEqual(len(figures), len(compile_time.KINDS) * (1 + len(compile_time.baselines())))
        self.assertTrue(all(seconds > 0 for seconds in figures.values()))

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_only_the_kinds_that_are_asked_for_are_measured(self):
        arguments = ["pooled/shared/make_shared.hpp", "--compiler", "g++", "--kind", "optimized"]
        self.assertEqual(self.run_with(*arguments), 0, self.said.getvalue())
        self.assertEqual({each["kind"] for each in self.figures()}, {"optimized"})

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_a_header_that_does_not_compile_has_its_first_error_and_no_figure(self):
        self.assertEqual(self.run_with("pooled/shared/new_one.hpp", "--compiler", "g++"), 1)
        broken = next(each for each in self.figures() if each["header"] == "pooled/shared/new_one.hpp")
        self.assertIsNone(broken["cpu_seconds"])
        self.assertIn("not ready", broken["error"])

    def test_a_compilation_over_the_limit_is_stopped(self):
        endless = [sys.executable, "-c", "while True: pass"]
        _, failed = compile_time.cpu_seconds(endless, 1)
        self.assertIn("more than 1 CPU seconds", failed)


if __name__ == "__main__":
    unittest.main()
