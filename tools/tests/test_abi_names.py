# SPDX-License-Identifier: BSL-1.0
"""Functions that take or only return a type of the library do not link between builds with different layouts."""

import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parent.parent.parent / "include"
SOURCE = """
#include <pooled/fwd.hpp>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>
struct node;
pooled::unique_ptr<node>& unique() { std::abort(); }
pooled::unique_ptr<node[]>& array() { std::abort(); }
pooled::rc_ptr<node> const* counted() { std::abort(); }
pooled::weak_local_rc_ptr<node>& weak() { std::abort(); }
std::pair<int, pooled::rc_ptr<node>*> pair() { std::abort(); }
std::vector<int, pooled::allocator<int>>& container() { std::abort(); }
pooled::pool& pool() { std::abort(); }
pooled::object_pool<node>& objects() { std::abort(); }
void takes(pooled::rc_ptr<node>&) {}
"""
BUILDS = ["-DPOOLED_CHECKED=0", "-DPOOLED_CHECKED=1", "-DPOOLED_STATIC=1", "-fno-exceptions"]


@pytest.mark.parametrize("toolchain", [["g++-12"], ["clang++-19", "-stdlib=libc++"]], ids=lambda words: words[0])
def test_a_function_that_returns_a_type_of_the_library_has_another_name_in_each_build(toolchain, tmp_path):
    if not shutil.which(toolchain[0]):
        pytest.skip(f"needs {toolchain[0]}")
    seen: set[str] = set()
    for build in BUILDS:
        command = [*toolchain, "-std=c++20", build, f"-I{INCLUDE}", "-c", "-o", tmp_path / "a.o", "-x", "c++", "-"]
        subprocess.run(command, input=SOURCE, text=True, check=True)
        listed = subprocess.run(["nm", tmp_path / "a.o"], capture_output=True, text=True, check=True).stdout
        names = {line.split()[2] for line in listed.splitlines() if " T " in line}
        assert len(names) == 9, names
        assert names & seen == set(), build
        seen |= names
