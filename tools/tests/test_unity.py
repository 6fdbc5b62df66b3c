# SPDX-License-Identifier: BSL-1.0
"""Test files that define the same names share a translation unit, and messages name the file a person edits."""

import contextlib
import io
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import unity

FILE = """#include <cassert>
namespace {{
int value() {{ return {value}; }}
int g_checked = (assert(value() == {value}), 0);
}}  // namespace
"""


class UnityTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def file(self, name, text):
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return path

    def unity(self, *arguments):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = unity.main(["unity.py", *map(str, arguments)])
        return status, output.getvalue()

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_equal_names_in_unnamed_namespaces_do_not_clash(self):
        one = self.file("one.cpp", FILE.format(value=1) + "int after() { return value(); }\n")
        two = self.file("two.cpp", FILE.format(value=2) + "int main() { return g_checked + (after() != 1); }\n")
        # The names that code outside the namespaces uses must be unique.
        two.write_text(two.read_text().replace("g_checked", "g_other"))
        out = self.directory / "out.cpp"
        self.assertEqual(self.unity(out, one, two), (0, ""))
        program = self.directory / "program"
        subprocess.run(["g++", "-std=c++20", out, "-o", program], check=True)
        subprocess.run([program], check=True)

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_messages_name_the_file_and_line_that_a_person_edits(self):
        one = self.file("one.cpp", FILE.format(value=1))
        two = self.file("two.cpp", FILE.format(value=2) + "wrong;\n")
        out = self.directory / "out.cpp"
        self.unity(out, one, two)
        done = subprocess.run(["g++", "-fsyntax-only", out], capture_output=True, text=True, check=False)
        self.assertIn(f"{two}:6:1: error", done.stderr)

    def test_files_that_cannot_share_a_translation_unit_are_listed(self):
        good = self.file("good.cpp", FILE.format(value=1) + "#define LATE 1\n")
        macro = self.file("macro.cpp", "#define CHECKED 1\n" + FILE.format(value=1))
        odd = self.file("odd.cpp", "namespace {\nint x;\n}\n")
        self.assertEqual(self.unity("--alone", good, macro, odd), (0, f"{macro}\n{odd}\n"))
