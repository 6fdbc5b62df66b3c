# SPDX-License-Identifier: BSL-1.0
"""What including the library costs its users: preprocessed lines, heavy standard headers, and code."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "include"
COMPAT = ROOT / "compat/include"
TOOLCHAINS = [["g++-12"], ["clang++-19", "-stdlib=libc++"]]
INSTALLED = [(at, each) for at, each in enumerate(TOOLCHAINS) if shutil.which(each[0])]
# Preprocessed lines with GCC 12 and libstdc++, and with Clang 19 and libc++. <memory> alone is 35,486 and 20,286; each
# bound is what was measured and a few hundred for small changes. tail() gives a std::span: 17,000 lines of libc++.
MOST_LINES = {
    "pooled/pooled.hpp": (57_750, 67_200),
    "pooled/fwd.hpp": (35_900, 20_900),
    "pooled/options.hpp": (30_800, 37_200),  # those of object_pool, too
    "pooled/stats.hpp": (21_800, 36_000),
    "pooled/pool.hpp": (53_200, 47_200),
    "pooled/allocator.hpp": (53_300, 47_300),
    "pooled/make_shared.hpp": (53_750, 64_700),
    "pooled/rc_ptr.hpp": (52_200, 46_100),
    "pooled/object_pool.hpp": (56_200, 48_700),
    "pooled/compat/pmr.hpp": (53_850, 47_450),
    "pooled/compat/boost_pool.hpp": (50_800, 55_500),
    "pooled/compat/recycle.hpp": (65_350, 64_550),
    "pooled/compat/boost_intrusive_pool.hpp": (65_850, 65_850),
}
# Lines of the library itself, without empty ones, that a source with pooled.hpp parses with the compiled library.
MOST_OWN_LINES_WITH_LIBRARY = 6_300
# Bytes of code at -O2 in the object file of a source that only includes pooled.hpp, and of one that holds and drops
# pointers as well: what frees a block, without what makes a pool. A static initialiser or a key function that refers to
# the heap makes both 80,000, and each source compile 3 s longer.
UNUSED = "#include <pooled/pooled.hpp>\n"
DROPS = UNUSED + "struct two { pooled::unique_ptr<int> a; pooled::rc_ptr<int> b; };\nvoid drop(two& p) { p = two(); }\n"
# Of both, 1,900 register the handlers of forks before all others of the process (os/fork_gate.hpp).
MOST_CODE = {UNUSED: 4_100, DROPS: 6_700}
# The same against libpooled, of sources that make pools and objects as well: what is inlined, and what is of the type.
MAKES = UNUSED + "struct node { int value; ~node() { value = 0; } };\n"
MAKES += "std::shared_ptr<node> make() { return pooled::make_shared<node>(); }\n"
MAKES += "void use() { pooled::pool p; auto a = p.make_unique<node>(); auto b = p.make_rc<node>(); p.trim(); }\n"
ACQUIRES = (
    UNUSED + "void use() { pooled::object_pool<int> pool; auto a = pool.acquire(); auto b = pool.acquire_rc(); }\n"
)
MOST_CODE_WITH_LIBRARY = {MAKES: 11_000, ACQUIRES: 17_000}
# What one more size may cost: the function that frees a block of its class; with the headers, two cache lines of GCC.
MOST_CODE_OF_A_SIZE = {"-DPOOLED_STATIC=1": 110, "-DPOOLED_STATIC=0": 160}
HEAVY = {"iostream", "fstream", "sstream", "iomanip", "regex", "map", "set", "unordered_map", "list", "deque", "thread"}
HEAVY |= {"future", "filesystem", "ranges", "random", "locale", "format", "condition_variable", "any", "variant"}
# Each has what the library needs of it in base/: 4,000 to 33,000 lines less, according to the library.
HEAVY |= {"algorithm", "chrono", "functional", "ostream", "mutex"}
# Of headers that replace another library's: its interface takes a std::function or a std::mutex, or its file sorts.
IN_COMPAT = {"algorithm", "functional", "mutex"}


@pytest.mark.parametrize("header", MOST_LINES)
def test_public_headers_keep_to_their_preprocessed_lines(header):
    for at, toolchain in INSTALLED:
        command = [*toolchain, "-std=c++20", f"-I{INCLUDE}", f"-I{COMPAT}", "-E", "-P", "-x", "c++", "-"]
        source = f"#include <{header}>\n"
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        if "boost/" in done.stderr:
            pytest.skip("Boost is not installed")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") <= MOST_LINES[header][at], toolchain[0]


def test_a_user_of_the_compiled_library_does_not_parse_the_heap():
    command = [INSTALLED[0][1][0], "-std=c++20", "-DPOOLED_STATIC=1", f"-I{INCLUDE}", "-E", "-x", "c++", "-"]
    done = subprocess.run(command, input=UNUSED, capture_output=True, text=True, check=True)
    lines: dict[str, int] = {}
    file = ""
    for line in done.stdout.splitlines():
        if marker := re.match(r'# \d+ "([^"]+)"', line):
            file = marker[1]
        elif line.strip() and file.startswith(str(INCLUDE)):
            lines[file] = lines.get(file, 0) + 1
    assert sum(lines.values()) > 1_000
    assert sum(lines.values()) <= MOST_OWN_LINES_WITH_LIBRARY, lines
    assert [each for each in lines if each.endswith(("slab_heap.hpp", "cache_set.hpp"))] == []


@pytest.mark.parametrize(
    ("source", "most", "options"),
    [
        *((source, most, []) for source, most in MOST_CODE.items()),
        *((source, most, ["-DPOOLED_SHARED=1"]) for source, most in MOST_CODE_WITH_LIBRARY.items()),
    ],
)
def test_a_source_has_no_code_of_the_heap_that_it_does_not_need(tmp_path, source, most, options):
    for _, toolchain in INSTALLED:
        flags = ["-std=c++20", "-O2", *options, f"-I{INCLUDE}", "-x", "c++", "-"]
        subprocess.run([*toolchain, "-c", "-o", tmp_path / "a.o", *flags], input=source, text=True, check=True)
        sizes = subprocess.run(["size", tmp_path / "a.o"], capture_output=True, text=True, check=True).stdout
        assert int(sizes.splitlines()[1].split()[0]) <= most, f"{toolchain[0]}: {source}"


def code_of_types(toolchain: list[str], folder: Path, words: list[int], options: list[str]) -> int:
    """Bytes of code and read-only data of a source that makes a type of each number of words, with a string as well."""
    lines = [UNUSED, "#include <string>\n"]
    for i, count in enumerate(words):
        lines += [f"struct t{i} {{ std::string name; long more[{count}] = {{}}; }};\n"]
        lines += [f"std::shared_ptr<t{i}> make{i}() {{ return pooled::make_shared<t{i}>(); }}\n"]
    flags = ["-std=c++20", "-O2", *options, f"-I{INCLUDE}", "-x", "c++", "-"]
    source = "".join(lines)
    subprocess.run([*toolchain, "-c", "-o", folder / "a.o", *flags], input=source, text=True, check=True)
    sizes = subprocess.run(["size", folder / "a.o"], capture_output=True, text=True, check=True).stdout
    return int(sizes.splitlines()[1].split()[0])


@pytest.mark.parametrize("mode", MOST_CODE_OF_A_SIZE)
def test_types_of_different_sizes_share_all_but_one_function(tmp_path, mode):
    for _, toolchain in INSTALLED:
        of_one_size = code_of_types(toolchain, tmp_path, [20] * 16, [mode])
        of_many = code_of_types(toolchain, tmp_path, [20 + 4 * i for i in range(16)], [mode])
        assert of_many - of_one_size <= 15 * MOST_CODE_OF_A_SIZE[mode], toolchain[0]


def test_no_header_includes_a_heavy_one_of_the_standard_library():
    for header in sorted([*INCLUDE.rglob("*.hpp"), *COMPAT.rglob("*.hpp")]):
        name = header.as_posix()
        text = header.read_text(encoding="utf-8")
        included = set(re.findall(r"^#include <(\w+)>", text, re.MULTILINE))
        allowed = IN_COMPAT if "/compat/" in name else set()
        assert included & (HEAVY - allowed) == set(), name
