# SPDX-License-Identifier: BSL-1.0
"""A compile-fail test must itself fail when its program compiles, or is refused for another reason."""

import contextlib
import io
import shutil
import tempfile
import unittest
from pathlib import Path

import compile_fail

PROGRAM = """// expect wrong: {expect}
int main() {{
    {control}
#ifdef MISTAKE_wrong
    {mistake}
#endif
}}
"""


@unittest.skipUnless(shutil.which("g++"), "needs g++")
class CompileFailTest(unittest.TestCase):
    def run_on(self, text):
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / "program.cpp"
            source.write_text(text, encoding="utf-8")
            self.output = io.StringIO()
            with contextlib.redirect_stdout(self.output):
                return compile_fail.check(source, ["g++", "-std=c++20"])

    def program(self, expect="static assertion", control="", mistake='static_assert(false, "no");'):
        return PROGRAM.format(expect=expect, control=control, mistake=mistake)

    def test_a_program_refused_with_the_expected_message_passes(self):
        self.assertEqual(self.run_on(self.program()), 0, self.output.getvalue())

    def test_a_program_that_compiles_fails(self):
        self.assertEqual(self.run_on(self.program(mistake="")), 1)
        self.assertIn("compiles, but must be refused", self.output.getvalue())

    def test_a_program_refused_with_another_message_fails(self):
        self.assertEqual(self.run_on(self.program(expect="no such words")), 1)
        self.assertIn("does not match", self.output.getvalue())

    def test_a_program_that_is_broken_without_its_mistake_fails(self):
        self.assertEqual(self.run_on(self.program(control="undeclared();")), 1)
        self.assertIn("without a mistake", self.output.getvalue())

    def test_a_program_without_an_expectation_fails(self):
        self.assertEqual(self.run_on("int main() {}\n"), 1)
        self.assertIn("expect NAME", self.output.getvalue())

    def test_a_mistake_that_no_condition_switches_on_fails(self):
        self.assertEqual(self.run_on("// expect other: error\n" + self.program()), 1)
        self.assertIn("MISTAKE_other", self.output.getvalue())

    def test_each_mistake_of_a_program_is_compiled_alone(self):
        second = "// expect second: no such type\n#ifdef MISTAKE_second\nunknown x;\n#endif\n"
        self.assertEqual(self.run_on(second + self.program()), 1)
        self.assertIn("wrong is refused as expected", self.output.getvalue())
        self.assertEqual(self.run_on(second.replace("no such type", "unknown") + self.program()), 0)
