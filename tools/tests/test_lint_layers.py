# SPDX-License-Identifier: BSL-1.0
"""Each rule of the lint must notice its own kind of mistake, and only that."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import lint_layers as lint  # noqa: E402

OPENING = f"{lint.LICENCE}\n#pragma once\n"


class LintTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.include = Path(directory.name) / "include"

    def header(self, name, body="", opening=OPENING):
        path = self.include / "pooled" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(opening + body, encoding="utf-8")

    def headers(self):
        return lint.read_headers(self.include)

    def assert_one(self, findings, path, line, words):
        self.assertEqual(len(findings), 1, findings)
        self.assertEqual((findings[0].path, findings[0].line), (path, line))
        self.assertIn(words, findings[0].message)

    def test_includes_downward_and_within_a_layer_are_accepted(self):
        self.header("config.hpp")
        self.header("core/bits.hpp", '#include "pooled/config.hpp"\n')
        self.header("source/chunk.hpp", "#include <pooled/core/bits.hpp>\n")
        self.header("freelist/depot.hpp", '#include "pooled/source/chunk.hpp"\n#include <vector>\n')
        self.header("pooled.hpp", '#include "pooled/freelist/depot.hpp"\n')
        self.assertEqual(lint.check_layers(self.headers()) + lint.check_cycles(self.headers()), [])

    def test_an_upward_include_is_refused(self):
        self.header("pool/pool.hpp")
        self.header("core/bits.hpp", '#include "pooled/pool/pool.hpp"\n')
        self.assert_one(lint.check_layers(self.headers()), "include/pooled/core/bits.hpp", 3, "core is below pool")

    def test_an_upward_include_by_a_relative_path_is_refused(self):
        self.header("pool/pool.hpp")
        self.header("core/bits.hpp", '#include "../pool/pool.hpp"\n')
        self.assert_one(lint.check_layers(self.headers()), "include/pooled/core/bits.hpp", 3, "core is below pool")

    def test_only_the_top_may_include_the_umbrella(self):
        self.header("pooled.hpp")
        self.header("compat/recycle.hpp", '#include "pooled/pooled.hpp"\n')
        self.assert_one(lint.check_layers(self.headers()), "include/pooled/compat/recycle.hpp", 3, "below pooled.hpp")

    def test_a_circle_of_includes_is_refused_and_shown(self):
        self.header("core/a.hpp", '#include "pooled/core/b.hpp"\n')
        self.header("core/b.hpp", '#include "pooled/core/c.hpp"\n')
        self.header("core/c.hpp", '\n#include "pooled/core/a.hpp"\n')
        circle = "core/a.hpp -> core/b.hpp -> core/c.hpp -> core/a.hpp"
        self.assert_one(lint.check_cycles(self.headers()), "include/pooled/core/c.hpp", 4, circle)

    def test_an_include_of_nothing_is_refused(self):
        self.header("core/a.hpp", '#include "pooled/core/gone.hpp"\n')
        self.assert_one(lint.check_layers(self.headers()), "include/pooled/core/a.hpp", 3, "does not exist")

    def test_a_folder_that_is_no_layer_is_refused(self):
        self.header("misc/a.hpp")
        self.assert_one(lint.check_layers(self.headers()), "include/pooled/misc/a.hpp", 1, "is in no layer")

    def test_a_header_of_400_lines_is_accepted_and_one_more_is_refused(self):
        self.header("core/a.hpp", "\n" * 398)
        self.header("core/b.hpp", "\n" * 399)
        headers = self.headers()
        self.assertEqual(lint.check_length(headers["core/a.hpp"]), [])
        self.assert_one(lint.check_length(headers["core/b.hpp"]), "include/pooled/core/b.hpp", 401, "401 lines")

    def test_the_licence_line_comes_first(self):
        self.header("core/a.hpp", opening="#pragma once\n")
        self.assert_one(lint.check_opening(self.headers()["core/a.hpp"]), "include/pooled/core/a.hpp", 1, "SPDX")

    def test_pragma_once_follows_the_licence(self):
        self.header("core/a.hpp", "int x;\n#pragma once\n", opening=lint.LICENCE + "\n\n")
        self.assert_one(
            lint.check_opening(self.headers()["core/a.hpp"]), "include/pooled/core/a.hpp", 3, "#pragma once"
        )

    def test_a_macro_without_the_prefix_is_refused_outside_compat(self):
        self.header("core/a.hpp", "#define POOLED_GOOD 1\n#define bad 1\n")
        self.header("compat/a.hpp", "#define BOOST_LIKE 1\n")
        headers = self.headers()
        self.assert_one(lint.check_macros(headers["core/a.hpp"]), "include/pooled/core/a.hpp", 4, "POOLED_BAD")
        self.assertEqual(lint.check_macros(headers["compat/a.hpp"]), [])

    def test_versions_that_differ_are_refused(self):
        versions = "".join(f"#define POOLED_VERSION_{part} 2\n" for part in ("MAJOR", "MINOR", "PATCH"))
        self.header("config.hpp", versions)
        cmake_lists = self.include.parent / "CMakeLists.txt"
        cmake_lists.write_text("cmake_minimum_required(VERSION 3.25.0)\nproject(\n  pooled\n  VERSION 2.2.1)\n")
        found = lint.check_version(self.headers(), cmake_lists)
        self.assert_one(found, "include/pooled/config.hpp", 5, "patch version 2, CMakeLists.txt says 1")

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_a_header_that_needs_another_before_it_is_refused(self):
        self.header("core/good.hpp", "inline int one() { return 1; }\n")
        self.header("core/bad.hpp", "inline std::size_t one() { return 1; }\n")
        self.header("pool/user.hpp", '#include "pooled/core/bad.hpp"\n')
        findings = lint.check_alone(self.include, self.headers(), ["g++"])
        self.assert_one(findings, "include/pooled/core/bad.hpp", 1, "does not compile alone with g++")

    def test_a_compiler_that_is_missing_is_an_error(self):
        self.header("core/a.hpp")
        findings = lint.check_alone(self.include, self.headers(), ["no-such-compiler"])
        self.assertIn("not installed", findings[0].message)


if __name__ == "__main__":
    unittest.main()
