#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that the library's headers keep to their layers and can each be read and compiled alone.

usage: lint_layers.py [--include DIR] [--no-compile]

What is refused, each with file, line and what to do about it:

  upward      a header includes a header of a higher layer
  cycle       headers include one another in a circle
  unknown     an include that names no file, or a folder that is no layer
  opening     a header that does not begin with the licence line and `#pragma once`
  macro       a macro without the prefix POOLED_
  version     version.hpp, CMakeLists.txt and CHANGELOG.md name different versions
  hidden      a class that ctags, and so an editor or a code search, does not find
  alone       a header that does not compile by itself (GCC, warnings are errors)
  libc++      headers that do not compile together with Clang and libc++ (warnings are errors)
"""

import argparse
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple

from expect_report import result_of
from single_header import version

ROOT = Path(__file__).resolve().parent.parent


# A header may include its own layer and those before it. Layer -> its folders, and its headers outside of them.
LAYERS = {
    "config": "fwd config version base/macros base/thread_local",
    "base": "base error inspect/record inspect/walk",
    "os": "os",
    "plugins": "plugins",
    "heap": "heap",
    "cache": "cache",
    "pool": "pool/ inspect instrument options stats",
    "teardown": "teardown destroy_in_place reclaim_scope",
    "smart": "smart allocator as_std default_pool live_report local_pool pending pool make_shared rc_from_this rc_ptr "
    "tail to_shared unique_ptr",
    "object": "object lifecycle object_pool",
    "compat": "compat",
    "all": "pooled",
}
NAMES = list(LAYERS)
RANK = {name: rank for rank, names in enumerate(LAYERS.values()) for name in names.split()}
# Compiled on their systems alone.
OF_OTHER_SYSTEMS = {"os/platform_windows.hpp"}
# From the lowest: precompiled for the headers that include them in any case, which halves the time of `alone`.
PRECOMPILED = ["os/platform.hpp", "heap/slab_heap.hpp", "pool/core.hpp", "rc_ptr.hpp"]
LICENCE = "// SPDX-License-Identifier: BSL-1.0"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
GCC = "g++"
CLANG = "clang++-19"
CTAGS = "ctags"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CLASS = re.compile(r"(?:class|struct)(?: POOLED_\w+| alignas\([^)]*\))* (\w+)(?: final)?(?: : .*)? {$")
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)")


class Finding(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Header(NamedTuple):
    name: str  # relative to include/pooled, e.g. base/bits.hpp
    lines: list[str]
    includes: dict[str, int]  # name of a header of the library -> line

    @property
    def shown(self):
        return f"{'compat/' if self.name.startswith('compat/') else ''}include/pooled/{self.name}"


def layer_of(name: str) -> int | None:
    """Of a header, or of the folder that it is in."""
    path = PurePosixPath(name).with_suffix("")
    parts = [str(path), *(f"{parent}/" for parent in path.parents), *map(str, path.parents)]
    return next((RANK[part] for part in parts if part in RANK), None)


def library_name(quote: str, target: str, includer: str) -> str | None:
    """What an include names inside include/pooled, or None when it is not of the library."""
    if target.startswith("pooled/"):
        return target[len("pooled/") :]
    if quote == '"':
        return os.path.normpath(os.path.join(os.path.dirname(includer), target))
    return None


def read_headers(include: Path) -> dict[str, Header]:
    """Of the library and, as its highest layer, of the package beside it."""
    headers = {}
    folders = [include / "pooled", include.parent / "compat/include/pooled"]
    for base, path in ((folder, path) for folder in folders for path in sorted(folder.rglob("*.hpp"))):
        name = path.relative_to(base).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        includes = {}
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            target = match and library_name(match[1], match[2], name)
            if target:
                includes.setdefault(target, number)
        headers[name] = Header(name, lines, includes)
    return headers


def check_opening(header: Header) -> list[Finding]:
    if [line for line in header.lines if line.strip()][:2] == [LICENCE, "#pragma once"]:
        return []
    return [Finding(header.shown, 1, f"the first line must be `{LICENCE}`, and `#pragma once` must follow it")]


def check_macros(header: Header) -> list[Finding]:
    if header.name.startswith("compat/"):  # these answer to the names of other libraries
        return []
    defined = ((number, DEFINE.match(line)) for number, line in enumerate(header.lines, 1))
    return [
        Finding(header.shown, number, f"macro {found[1]}: name it POOLED_{found[1].upper()}")
        for number, found in defined
        if found and not found[1].startswith("POOLED_")
    ]


def check_layers(headers: dict[str, Header]) -> list[Finding]:
    findings = []
    for header in headers.values():
        own = layer_of(header.name)
        if own is None:
            findings.append(Finding(header.shown, 1, "is in no layer: move it, or add its folder to LAYERS here"))
            continue
        for target, line in header.includes.items():
            other = layer_of(target)
            if target not in headers:
                findings.append(Finding(header.shown, line, f"includes pooled/{target}, which does not exist"))
            elif other is not None and other > own:
                below = f"layer {NAMES[own]} is below {NAMES[other]}"
                findings.append(Finding(header.shown, line, f"includes pooled/{target}: {below}; move what is shared"))
    return findings


def check_cycles(headers: dict[str, Header]) -> list[Finding]:
    """At most one: it may hide others."""
    graph = {name: [each for each in header.includes if each in headers] for name, header in headers.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        last = headers[circle[-2]]
        told = f"closes a circle of includes: {' -> '.join(circle)}"
        return [Finding(last.shown, last.includes[circle[-1]], told)]
    return []


def check_version(include: Path) -> list[Finding]:
    cmake_lists, changelog = (include.parent / name for name in ("CMakeLists.txt", "CHANGELOG.md"))
    text = cmake_lists.read_text(encoding="utf-8") if cmake_lists.is_file() else ""
    declared = re.search(r"\bproject\(.*?\bVERSION\s+(\d+\.\d+\.\d+)", text, re.DOTALL)
    if declared is None or not (include / "pooled/version.hpp").is_file():
        return []
    findings = []
    if (said := version(include)) != declared[1]:
        message = f"says {said}, CMakeLists.txt says {declared[1]}"
        findings.append(Finding("include/pooled/version.hpp", 1, message))
    if changelog.is_file() and f"\n## [{declared[1]}]" not in changelog.read_text(encoding="utf-8"):
        findings.append(Finding("CHANGELOG.md", 1, f"has no entry for {declared[1]}, the version in CMakeLists.txt"))
    return findings


def check_tags(include: Path, headers: dict[str, Header]) -> list[Finding]:
    """Each class and structure that begins a line must be found by ctags."""
    if shutil.which(CTAGS) is None:
        return [Finding("tools/lint_layers.py", 0, f"{CTAGS} is not installed; `tools/setup lint` installs it")]
    command = [CTAGS, "--languages=C++", "--c++-kinds=cs", "-x", "--_xformat=%N %F", "-R", "."]
    folders = [each for each in (include, include.parent / "compat/include") if each.is_dir()]
    found = {line for each in folders for line in result_of(command, cwd=each / "pooled")[1].split("\n")}
    return [
        Finding(header.shown, number, f"ctags does not find {match[1]}: open namespaces by POOLED_BEGIN_NAMESPACE")
        for header in headers.values()
        for number, line in enumerate(header.lines, 1)
        if (match := CLASS.match(line)) and f"{match[1]} {header.name}" not in found
    ]


def folders_of(include: Path) -> list[str]:
    return [f"-I{include}", f"-I{include.parent / 'compat/include'}"]


def compile_text(command: list[str], text: str) -> str:
    """Compiles the text; returns the first error, or nothing."""
    status, output = result_of([*command, "-x", "c++", "-"], input=text)
    found = (line for line in output.splitlines() if "error" in line)
    return next(found, output.strip()[:200] or "no message") if status else ""


def include_lines(names: list[str]) -> str:
    return "".join(f'#include "pooled/{name}"\n' for name in names)


def all_included(name: str, headers: dict[str, Header]) -> set[str]:
    """The headers of the library that it includes, and those that these do."""
    found, left = set(), [name]
    while left:
        new = {each for each in headers[left.pop()].includes if each in headers} - found
        found |= new
        left += new
    return found


def check_compilers() -> list[Finding]:
    return [
        Finding("tools/lint_layers.py", 0, f"compiler {compiler} is not installed; `tools/setup lint` installs it")
        for compiler in (GCC, CLANG)
        if shutil.which(compiler) is None
    ]


def check_alone(include: Path, headers: dict[str, Header]) -> list[Finding]:
    # GCC makes an inline function that is used and not defined an error of its own.
    command = [GCC, "-std=c++20", *WARNINGS, *folders_of(include)]
    names = [name for name in headers if name not in OF_OTHER_SYSTEMS]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as workers:
        paths = {name: Path(folder, f"{at}.hpp") for at, name in enumerate(PRECOMPILED) if name in headers}
        for name, path in paths.items():
            path.write_text(include_lines([name]), encoding="utf-8")
        # Where that fails, the text is included: the header's own compilation tells why.
        list(workers.map(lambda path: result_of([*command, "-x", "c++-header", str(path)]), paths.values()))

        def error_of(name: str) -> str:
            included = all_included(name, headers)
            largest = [["-include", str(path)] for each, path in paths.items() if each in included][-1:]
            return compile_text([*command, *sum(largest, []), "-fsyntax-only"], include_lines([name]))

        errors = list(workers.map(error_of, names))
    failed = {name: error for name, error in zip(names, errors, strict=True) if error}
    # A header whose own includes fail says nothing new.
    return [
        Finding(headers[name].shown, 1, f"does not compile alone with {GCC}. First error:\n    {error}")
        for name, error in failed.items()
        if not any(target in failed for target in headers[name].includes)
    ]


def check_libcxx(include: Path, headers: dict[str, Header]) -> list[Finding]:
    command = [CLANG, "-stdlib=libc++", "-std=c++20", "-fsyntax-only", *WARNINGS, *folders_of(include)]
    error = compile_text(command, include_lines([name for name in headers if name not in OF_OTHER_SYSTEMS]))
    return [Finding("include/pooled", 0, f"does not compile with {CLANG} and libc++: {error}")] if error else []


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, default=ROOT / "include", help="directory that holds pooled/")
    parser.add_argument("--no-compile", action="store_true", help="skip `alone` and `libc++`, the slowest")
    options = parser.parse_args(argv)

    headers = read_headers(options.include)
    if not headers:
        print(f"{options.include}/pooled holds no header", file=sys.stderr)
        return 2
    findings = check_layers(headers) + check_cycles(headers) + check_version(options.include)
    for header in headers.values():
        findings += check_opening(header) + check_macros(header)
    if not options.no_compile:
        findings += check_tags(options.include, headers)
        findings += check_compilers() or (
            check_alone(options.include, headers) + check_libcxx(options.include, headers)
        )

    for finding in sorted(findings):
        print(finding)
    print(f"layers: {len(headers)} headers, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
