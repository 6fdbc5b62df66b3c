# SPDX-License-Identifier: BSL-1.0
"""Each rule of the lint must notice its own kind of mistake, and only that."""

import shutil

import lint_layers as lint
import pytest

needs_compilers = pytest.mark.skipif(bool(lint.check_compilers()), reason="needs g++ and clang++-19")
OPENING = f"{lint.LICENCE}\n#pragma once\n"
VERSIONS = "".join(f"#define POOLED_VERSION_{part} 2\n" for part in ("MAJOR", "MINOR", "PATCH"))
CMAKE_LISTS = "cmake_minimum_required(VERSION 3.25.0)\nproject(\n  pooled\n  VERSION 2.2.1)\n"


@pytest.fixture
def found(tmp_path, capsys, monkeypatch):
    """What the lint says of headers with these bodies. CMakeLists.txt has another version than VERSIONS."""
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_LISTS)

    def go(*words, opening=OPENING, **bodies):
        for name, body in bodies.items():
            path = tmp_path / "include/pooled" / f"{name.replace('__', '/')}.hpp"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(opening + body, encoding="utf-8")
        status = lint.main(["--include", str(tmp_path / "include"), *words])
        *findings, _ = capsys.readouterr().out.splitlines()
        assert status == bool(findings)
        return findings

    return go


def test_includes_downward_and_within_a_layer_are_accepted(found):
    assert (
        found(
            "--no-compile",
            config="",
            base__bits='#include "pooled/config.hpp"\n',
            os__platform="#include <pooled/base/bits.hpp>\n#define POOLED_GOOD 1\n",
            heap__chunk='#include "pooled/os/platform.hpp"\n#include <vector>\n',
            compat__a="#define BOOST_LIKE 1\n",
            pooled='#include "pooled/heap/chunk.hpp"\n',
        )
        == []
    )


CIRCLE = {
    "os__a": '#include "pooled/os/b.hpp"\n',
    "os__b": '#include "pooled/os/c.hpp"\n',
    "os__c": '\n#include "pooled/os/a.hpp"\n',
}


@pytest.mark.parametrize(
    ("bodies", "place", "words"),
    [
        ({"options": "", "base__bits": '#include "pooled/options.hpp"\n'}, "base/bits.hpp:3", "base is below pool"),
        (CIRCLE, "os/c.hpp:4", "os/a.hpp -> os/b.hpp -> os/c.hpp -> os/a.hpp"),
        ({"os__a": "", "opening": "#pragma once\n"}, "os/a.hpp:1", "SPDX"),
        ({"os__a": "#define bad 1\n"}, "os/a.hpp:3", "POOLED_BAD"),
        ({"version": VERSIONS}, "version.hpp:1", "says 2.2.2, CMakeLists.txt says 2.2.1"),
    ],
)
def test_a_mistake_is_told_with_its_place(found, bodies, place, words):
    (finding,) = found("--no-compile", **bodies)
    assert finding.startswith(f"include/pooled/{place}: ") and words in finding


@needs_compilers
def test_a_header_that_needs_another_before_it_is_refused(found):
    bad = "inline std::size_t one() { return 1; }\n"
    finding, *error = found(
        os__good="inline int one() { return 1; }\n",
        os__bad=f"#ifndef __clang__\n{bad}#endif\n",
        pool__user='#include "pooled/os/bad.hpp"\n',
    )
    assert finding.startswith("include/pooled/os/bad.hpp:1: does not compile alone with g++")
    assert len(error) == 1


@needs_compilers
def test_headers_that_libcxx_refuses_are_told_with_the_first_error(found):
    (finding,) = found(os__a="#include <version>\n#ifdef _LIBCPP_VERSION\n#error not here\n#endif\n")
    assert finding.startswith("include/pooled:0: ") and "not here" in finding


@pytest.mark.skipif(shutil.which(lint.CTAGS) is None, reason=f"needs {lint.CTAGS}")
def test_a_class_that_ctags_does_not_find_is_told(tmp_path):
    hidden = "namespace pooled::inline ABI::detail {\nclass lost {\n};\n}\n"
    for name, body in (("os/hidden", hidden), ("os/seen", "BEGIN\nnamespace detail {\nclass found {\n};\n}\nEND\n")):
        path = tmp_path / "include/pooled" / f"{name}.hpp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(OPENING + body, encoding="utf-8")
    headers = lint.read_headers(tmp_path / "include")
    assert [each.message.split(":")[0] for each in lint.check_tags(tmp_path / "include", headers)] == [
        "ctags does not find lost"
    ]
