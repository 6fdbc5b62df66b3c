# SPDX-License-Identifier: BSL-1.0
"""Functions that take or only return a type of the library do not link between builds with different layouts."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

INCLUDE = Path(__file__).resolve().parent.parent.parent / "include"
TOOLCHAINS = [["g++-12"], ["clang++-19", "-stdlib=libc++"]]
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
BUILDS = ["-DPOOLED_CHECKED=0", "-DPOOLED_CHECKED=1", "-DPOOLED_TRACKED=1", "-DPOOLED_STATIC=1", "-fno-exceptions"]


class AbiNamesTest(unittest.TestCase):
    def symbols(self, toolchain: list[str], build: str) -> set[str]:
        with tempfile.TemporaryDirectory() as scratch:
            object_file = Path(scratch) / "source.o"
            command = [*toolchain, "-std=c++20", build, f"-I{INCLUDE}", "-c", "-o", object_file, "-x", "c++", "-"]
            subprocess.run(command, input=SOURCE, text=True, check=True)
            listed = subprocess.run(["nm", object_file], capture_output=True, text=True, check=True).stdout
        return {line.split()[2] for line in listed.splitlines() if " T " in line}

    def test_a_function_that_returns_a_type_of_the_library_has_another_name_in_each_build(self):
        for toolchain in TOOLCHAINS:
            if not shutil.which(toolchain[0]):
                continue
            seen: set[str] = set()
            for build in BUILDS:
                names = self.symbols(toolchain, build)
                self.assertEqual(len(names), 9, names)
                self.assertEqual(names & seen, set(), build)
                seen |= names


if __name__ == "__main__":
    unittest.main()
