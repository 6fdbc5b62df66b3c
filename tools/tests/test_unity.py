# SPDX-License-Identifier: BSL-1.0
"""Test files that define the same names share a translation unit, and messages name the file a person edits."""

import shutil
import subprocess

import pytest
import unity

FILE = """#include <cassert>
namespace {{
int value() {{ return {value}; }}
int g_checked_{value} = (assert(value() == {value}), 0);
}}  // namespace
"""
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


@pytest.fixture
def file(tmp_path):
    def write(name, text, value=1):
        path = tmp_path / name
        path.write_text(text.format(file=FILE.format(value=value)), encoding="utf-8")
        return path

    return write


@needs_compiler
def test_equal_names_in_unnamed_namespaces_do_not_clash(file, tmp_path):
    one = file("one.cpp", "{file}int after() {{ return value(); }}\n")
    two = file("two.cpp", "{file}int main() {{ return g_checked_2 + (after() != 1); }}\n", 2)
    out, program = tmp_path / "out.cpp", tmp_path / "program"
    assert unity.main(["unity.py", out, one, two]) == 0
    subprocess.run(["g++", "-std=c++20", out, "-o", program], check=True)
    subprocess.run([program], check=True)


@needs_compiler
def test_messages_name_the_file_and_line_that_a_person_edits(file, tmp_path):
    one, two, out = file("one.cpp", "{file}"), file("two.cpp", "{file}wrong;\n", 2), tmp_path / "out.cpp"
    unity.main(["unity.py", out, one, two])
    done = subprocess.run(["g++", "-fsyntax-only", out], capture_output=True, text=True, check=False)
    assert f"{two}:6:1: error" in done.stderr


def test_files_that_cannot_share_a_translation_unit_are_listed(file, capsys):
    good = file("good.cpp", "{file}#define LATE 1\n")
    macro = file("macro.cpp", "#define CHECKED 1\n{file}")
    odd = file("odd.cpp", "namespace {{\nint x;\n}}\n")
    assert unity.main(["unity.py", "--alone", good, macro, odd]) == 0
    assert capsys.readouterr() == (f"{macro}\n{odd}\n", "")
