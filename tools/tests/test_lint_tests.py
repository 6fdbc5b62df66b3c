# SPDX-License-Identifier: BSL-1.0
"""A header without a test, a test without a header and an exception that is none any more are each noticed."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import lint_tests as lint  # noqa: E402


class LintTestsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def files(self, *names):
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def findings(self, **untested):
        return lint.findings_in(self.root, {f"heap/{name}.hpp": reason for name, reason in untested.items()})

    def assert_one(self, findings, *words):
        self.assertEqual(len(findings), 1, findings)
        for word in words:
            self.assertIn(word, findings[0])

    def test_a_header_with_a_test_of_its_name_and_of_its_aspects_is_accepted(self):
        self.files("include/pooled/pooled.hpp", "include/pooled/heap/slab.hpp")
        self.files("test/unit/heap/slab.cpp", "test/unit/heap/slab_lists.cpp", "test/unit/heap/helper.hpp")
        self.assertEqual(self.findings(), [])

    def test_a_header_in_no_layer_may_have_a_test(self):
        self.files("include/pooled/pooled.hpp", "include/pooled/version.hpp", "test/unit/version.cpp")
        self.assertEqual(self.findings(), [])
        self.files("test/unit/versions.cpp")
        self.assert_one(self.findings(), "test/unit/versions.cpp:1")

    def test_a_header_without_a_test_is_refused_also_if_an_aspect_has_one(self):
        self.files("include/pooled/heap/slab.hpp", "test/unit/heap/slab_lists.cpp")
        self.assert_one(self.findings(), "include/pooled/heap/slab.hpp:1", "test/unit/heap/slab.cpp")

    def test_a_test_in_the_folder_of_another_layer_does_not_count(self):
        self.files("include/pooled/heap/slab.hpp", "test/unit/pool/slab.cpp")
        self.assertEqual(len(self.findings()), 2)

    def test_a_test_that_names_no_header_is_refused(self):
        self.files("include/pooled/heap/slab.hpp", "test/unit/heap/slab.cpp", "test/unit/heap/slabs.cpp")
        self.assert_one(self.findings(), "test/unit/heap/slabs.cpp:1", "named for no header")

    def test_a_header_with_a_reason_needs_no_test(self):
        self.files("include/pooled/heap/slab.hpp")
        self.assertEqual(self.findings(slab="types alone"), [])

    def test_a_reason_for_a_header_that_is_gone_or_has_a_test_is_refused(self):
        self.files("include/pooled/heap/slab.hpp", "test/unit/heap/slab.cpp")
        self.assert_one(self.findings(slab="types alone"), "heap/slab.hpp has a test")
        self.assert_one(self.findings(gone="types alone"), "heap/gone.hpp does not exist")

    def test_the_parts_of_a_public_header_are_tested_with_it(self):
        self.files("include/pooled/compat/other.hpp", "include/pooled/compat/other/part.hpp")
        self.files("test/unit/compat/other.cpp", "test/unit/compat/other_part.cpp")
        self.assertEqual(self.findings(), [])
        self.files("include/pooled/heap/lists/slab.hpp")
        self.assert_one(self.findings(), "include/pooled/heap/lists/slab.hpp:1")

    def test_every_exception_of_the_repository_has_a_reason(self):
        self.assertTrue(all(lint.UNTESTED.values()))

    def test_findings_make_it_fail(self):
        self.files("include/pooled/heap/slab.hpp")
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
            self.assertEqual(lint.main(["--root", str(self.root)]), 1)
            self.assertEqual(lint.main(["--root", str(self.root / "nothing")]), 2)


if __name__ == "__main__":
    unittest.main()
