# SPDX-License-Identifier: BSL-1.0
"""Each rule of the lint must notice its own kind of mistake, and only that."""

import tempfile
import unittest
import unittest.mock
from pathlib import Path

import lint_layers as lint

OPENING = f"{lint.LICENCE}\n#pragma once\n"


class TemporaryHeaders(unittest.TestCase):
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


class LintTest(TemporaryHeaders):
    def test_includes_downward_and_within_a_layer_are_accepted(self):
        self.header("config.hpp")
        self.header("detail/bits.hpp", '#include "pooled/config.hpp"\n')
        self.header("impl/os/platform.hpp", "#include <pooled/detail/bits.hpp>\n")
        self.header("impl/heap/chunk.hpp", '#include "pooled/impl/os/platform.hpp"\n#include <vector>\n')
        self.header("pooled.hpp", '#include "pooled/impl/heap/chunk.hpp"\n')
        self.assertEqual(lint.check_layers(self.headers()) + lint.check_cycles(self.headers()), [])

    def test_an_upward_include_is_refused(self):
        self.header("options.hpp")
        self.header("detail/bits.hpp", '#include "pooled/options.hpp"\n')
        self.assert_one(lint.check_layers(self.headers()), "include/pooled/detail/bits.hpp", 3, "base is below pool")

    def test_a_circle_of_includes_is_refused_and_shown(self):
        self.header("impl/os/a.hpp", '#include "pooled/impl/os/b.hpp"\n')
        self.header("impl/os/b.hpp", '#include "pooled/impl/os/c.hpp"\n')
        self.header("impl/os/c.hpp", '\n#include "pooled/impl/os/a.hpp"\n')
        circle = "impl/os/a.hpp -> impl/os/b.hpp -> impl/os/c.hpp -> impl/os/a.hpp"
        self.assert_one(lint.check_cycles(self.headers()), "include/pooled/impl/os/c.hpp", 4, circle)

    def test_a_layer_keeps_to_its_lines(self):
        self.header("impl/os/a.hpp", "\n" * 8)
        self.header("impl/os/b.hpp", "\n" * 8)
        with unittest.mock.patch.dict(lint.LINES, {"os": 20}, clear=True):
            self.assertEqual(lint.check_length(self.headers()), [])
        with unittest.mock.patch.dict(lint.LINES, {"os": 19}, clear=True):
            self.assert_one(lint.check_length(self.headers()), "layer os", 0, "20 lines, 19 are allowed")

    def test_the_licence_line_comes_first(self):
        self.header("impl/os/a.hpp", opening="#pragma once\n")
        self.assert_one(lint.check_opening(self.headers()["impl/os/a.hpp"]), "include/pooled/impl/os/a.hpp", 1, "SPDX")

    def test_a_macro_without_the_prefix_is_refused_outside_compat(self):
        self.header("impl/os/a.hpp", "#define POOLED_GOOD 1\n#define bad 1\n")
        self.header("compat/a.hpp", "#define BOOST_LIKE 1\n")
        headers = self.headers()
        self.assert_one(lint.check_macros(headers["impl/os/a.hpp"]), "include/pooled/impl/os/a.hpp", 4, "POOLED_BAD")
        self.assertEqual(lint.check_macros(headers["compat/a.hpp"]), [])

    def test_versions_that_differ_are_refused(self):
        versions = "".join(f"#define POOLED_VERSION_{part} 2\n" for part in ("MAJOR", "MINOR", "PATCH"))
        self.header("config.hpp", versions)
        cmake_lists = self.include.parent / "CMakeLists.txt"
        cmake_lists.write_text("cmake_minimum_required(VERSION 3.25.0)\nproject(\n  pooled\n  VERSION 2.2.1)\n")
        found = lint.check_version(self.headers(), cmake_lists)
        self.assert_one(found, "include/pooled/config.hpp", 5, "patch version 2, CMakeLists.txt says 1")


@unittest.skipIf(lint.check_compilers(), "needs g++ and clang++-19")
class CompilingLintTest(TemporaryHeaders):
    def test_a_header_that_needs_another_before_it_is_refused(self):
        self.header("impl/os/good.hpp", "inline int one() { return 1; }\n")
        self.header("impl/os/bad.hpp", "inline std::size_t one() { return 1; }\n")
        self.header("impl/pool/user.hpp", '#include "pooled/impl/os/bad.hpp"\n')
        findings = lint.check_alone(self.include, self.headers())
        self.assert_one(findings, "include/pooled/impl/os/bad.hpp", 1, "does not compile alone with g++")

    def test_headers_that_libcxx_refuses_are_told_with_the_first_error(self):
        self.header("impl/os/a.hpp", "#include <version>\n#ifdef _LIBCPP_VERSION\n#error not here\n#endif\n")
        self.assert_one(lint.check_libcxx(self.include, self.headers()), "include/pooled", 0, "not here")
