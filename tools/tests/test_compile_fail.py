# SPDX-License-Identifier: BSL-1.0
"""A compile-fail test must itself fail when its program compiles, or is refused for another reason."""

import contextlib
import io
import shutil
import tempfile
import unittest
from pathlib import Path

import compile_fail

PROGRAM = """// expect: {expect}
int main() {{
    {control}
#ifndef POOLED_CONTROL
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
        self.assertIn("-DPOOLED_CONTROL", self.output.getvalue())
