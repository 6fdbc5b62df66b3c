#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that the library's headers keep to their layers and can each be read and compiled alone.

usage: lint_layers.py [--include DIR] [--no-compile]

What is refused, each with file, line and what to do about it:

  upward      a header includes a header of a higher layer
  cycle       headers include one another in a circle
  unknown     an include that names no file, or a folder that is no layer
  long        a layer with more lines than LINES allows: a change that raises one says why in its message
  opening     a header that does not begin with the licence line and `#pragma once`
  macro       a macro without the prefix POOLED_
  version     version.hpp, CMakeLists.txt and CHANGELOG.md name different versions
  alone       a header that does not compile by itself (GCC, warnings are errors), or calls a function that only a
              header it does not include defines (tools/lint_calls.py)
  layer       a layer that does not compile with those below it (Clang with libc++, warnings are errors), or that two
              translation units cannot both include, or that does not link (GCC, all inline functions emitted)
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from lint_calls import calls_without_definition, syntax_tree

ROOT = Path(__file__).resolve().parent.parent

# A header may include its own layer and those before it. Files stand for themselves, folders for what is in them.
LAYERS = [
    ["fwd.hpp", "config.hpp", "version.hpp"],
    ["base"],
    ["os"],
    ["heap"],
    ["cache"],
    ["pool"],
    ["teardown"],
    ["smart"],
    ["object"],
    ["compat"],
    ["pooled.hpp"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# How many lines the headers of a layer have at most.
LINES = {
    "base": 640,
    "os": 1540,
    "heap": 2670,
    "cache": 1430,
    "pool": 3930,
    "teardown": 1730,
    "smart": 2870,
    "object": 2850,
    "compat": 2690,
}
LICENCE = "// SPDX-License-Identifier: BSL-1.0"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
GCC = "g++"
CLANG = "clang++-19"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)")


class Finding(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Header(NamedTuple):
    name: str  # relative to include/pooled, e.g. core/bits.hpp
    lines: list[str]
    includes: dict[str, int]  # name of a header of the library -> line

    @property
    def shown(self):
        return f"include/pooled/{self.name}"


def layer_of(name: str) -> int | None:
    return RANK.get(name.split("/", 1)[0])


def layer_name(rank: int) -> str:
    return "/".join(LAYERS[rank])


def library_name(quote: str, target: str, includer: str) -> str | None:
    """What an include names inside include/pooled, or None when it is not of the library."""
    if target.startswith("pooled/"):
        return target[len("pooled/") :]
    if quote == '"':
        return os.path.normpath(os.path.join(os.path.dirname(includer), target))
    return None


def read_headers(include: Path) -> dict[str, Header]:
    base = include / "pooled"
    headers = {}
    for path in sorted(base.rglob("*.hpp")):
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
    if not header.lines or header.lines[0] != LICENCE:
        return [Finding(header.shown, 1, f"the first line must be `{LICENCE}`")]
    following = next(((n, text) for n, text in enumerate(header.lines[1:], 2) if text.strip()), (2, ""))
    if following[1] != "#pragma once":
        return [Finding(header.shown, following[0], "`#pragma once` must follow the licence line")]
    return []


def check_length(headers: dict[str, Header]) -> list[Finding]:
    findings = []
    for layer, most in LINES.items():
        lines = sum(len(header.lines) for name, header in headers.items() if name.startswith(f"{layer}/"))
        if lines > most:
            message = f"{lines} lines, {most} are allowed: delete some, or raise LINES and say why"
            findings.append(Finding(f"include/pooled/{layer}", 0, message))
    return findings


def check_macros(header: Header) -> list[Finding]:
    findings = []
    if header.name.startswith("compat/"):  # these answer to the names of other libraries
        return findings
    for number, line in enumerate(header.lines, 1):
        match = DEFINE.match(line)
        if match and not match[1].startswith("POOLED_"):
            findings.append(Finding(header.shown, number, f"macro {match[1]}: name it POOLED_{match[1].upper()}"))
    return findings


def check_layers(headers: dict[str, Header]) -> list[Finding]:
    findings = []
    for header in headers.values():
        own = layer_of(header.name)
        if own is None:
            findings.append(
                Finding(
                    header.shown,
                    1,
                    "is in no layer: move it, or add its folder to LAYERS in tools/lint_layers.py",
                )
            )
            continue
        for target, line in header.includes.items():
            other = layer_of(target)
            if target not in headers:
                findings.append(Finding(header.shown, line, f"includes pooled/{target}, which does not exist"))
            elif other is not None and other > own:
                findings.append(
                    Finding(
                        header.shown,
                        line,
                        f"includes pooled/{target}: layer {layer_name(own)} is below {layer_name(other)}. Move what is "
                        "shared down, or pass it in as a parameter",
                    )
                )
    return findings


def check_cycles(headers: dict[str, Header]) -> list[Finding]:
    findings = []
    done = set()

    def visit(name: str, trail: list[str]):
        if name in trail:
            circle = trail[trail.index(name) :] + [name]
            last = headers[trail[-1]]
            findings.append(
                Finding(
                    last.shown,
                    last.includes[name],
                    "closes a circle of includes: "
                    + " -> ".join(circle)
                    + ". Split what both sides need into a header "
                    "below them",
                )
            )
            return
        if name in done:
            return
        for target in headers[name].includes:
            if target in headers:
                visit(target, [*trail, name])
        done.add(name)

    for name in headers:
        visit(name, [])
    return findings


def check_version(headers: dict[str, Header], cmake_lists: Path) -> list[Finding]:
    config = headers.get("version.hpp") or headers.get("config.hpp")
    if config is None or not cmake_lists.is_file():
        return []
    declared = re.search(
        r"\bVERSION\s+(\d+)\.(\d+)\.(\d+)", cmake_lists.read_text(encoding="utf-8").split("project(", 1)[-1]
    )
    text = "\n".join(config.lines)
    findings = []
    for part, value in zip(("MAJOR", "MINOR", "PATCH"), declared.groups() if declared else (), strict=False):
        macro = re.search(rf"^#define POOLED_VERSION_{part} (\d+)$", text, re.MULTILINE)
        if macro and macro[1] != value:
            line = text[: macro.start()].count("\n") + 1
            findings.append(
                Finding(config.shown, line, f"says {part.lower()} version {macro[1]}, CMakeLists.txt says {value}")
            )
    changelog = cmake_lists.parent / "CHANGELOG.md"
    if declared and changelog.is_file():
        version = ".".join(declared.groups())
        if f"\n## [{version}]" not in changelog.read_text(encoding="utf-8"):
            findings.append(Finding("CHANGELOG.md", 1, f"has no entry for {version}, the version in CMakeLists.txt"))
    return findings


def compile_text(command: list[str], text: str) -> str:
    """Compiles the text; returns the first error, or nothing."""
    done = subprocess.run(
        [*command, "-x", "c++", "-"],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    if done.returncode == 0:
        return ""
    return first_error(done.stdout)


def first_error(output: str) -> str:
    words = ("error", "undefined reference", "multiple definition")
    found = (text for text in output.splitlines() if any(word in text for word in words))
    return next(found, output.strip()[:200] or "no message")


def include_lines(names: list[str]) -> str:
    return "".join(f'#include "pooled/{name}"\n' for name in names)


def side_by_side(function, jobs: list) -> list:
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return list(workers.map(function, jobs))


def check_compilers() -> list[Finding]:
    return [
        Finding("tools/lint_layers.py", 0, f"compiler {compiler} is not installed; `tools/setup lint` installs it")
        for compiler in (GCC, CLANG)
        if shutil.which(compiler) is None
    ]


def check_alone(include: Path, headers: dict[str, Header]) -> list[Finding]:
    # GCC makes an inline function that is used and not defined an error of its own.
    command = [GCC, "-std=c++20", "-fsyntax-only", *WARNINGS, f"-I{include}"]
    errors = side_by_side(lambda name: compile_text(command, include_lines([name])), list(headers))
    failed = {name: error for name, error in zip(headers, errors, strict=True) if error}
    # A header whose own includes fail says nothing new.
    return [
        Finding(
            headers[name].shown,
            1,
            f"does not compile alone with {GCC}; include what it uses. First error:\n    {error}",
        )
        for name, error in failed.items()
        if not any(target in failed for target in headers[name].includes)
    ]


def check_calls(include: Path, headers: dict[str, Header]) -> list[Finding]:
    tree = syntax_tree(include, headers, CLANG)
    if tree is None:
        return [Finding(str(include), 0, f"the headers do not compile together with {CLANG}: calls are not checked")]

    def reach(name: str, seen: set[str]) -> set[str]:
        for target in headers[name].includes:
            if target in headers and target not in seen:
                seen.add(target)
                reach(target, seen)
        return seen

    def is_called_on(caller: str, line: int, callee: str) -> bool:
        # The tree names a file only where it changes, and not after every detour: the text has to agree.
        lines = headers[caller].lines
        return 0 < line <= len(lines) and callee in lines[line - 1]

    found = calls_without_definition(tree, {name: reach(name, set()) for name in headers})
    return [
        Finding(
            headers[caller].shown,
            line,
            f"calls {callee}, which only pooled/{home} defines, and that is not included: alone, this header does not "
            "link. Include it, or take a callback where it is in a higher layer",
        )
        for caller, line, callee, home in found
        if is_called_on(caller, line, callee)
    ]


def link_layer(include: Path, rank: int, names: list[str]) -> Finding | None:
    text = include_lines(names)
    shown = f"include/pooled/{names[0].split('/')[0]}"

    def finding(what: str, error: str) -> Finding:
        return Finding(shown, 0, f"layer {layer_name(rank)} {what}. First error:\n    {error}")

    libcxx = [CLANG, "-stdlib=libc++", "-std=c++20", "-fsyntax-only", *WARNINGS, f"-I{include}"]
    if error := compile_text(libcxx, text):
        return finding(f"does not compile with {' '.join(libcxx[:2])}", error)
    with tempfile.TemporaryDirectory(prefix="lint-") as directory:
        one, other, program = (str(Path(directory) / name) for name in ("one.o", "other.o", "program"))
        emit = [GCC, "-std=c++20", "-O0", "-w", "-fkeep-inline-functions", f"-I{include}", "-c", "-o", one]
        if error := compile_text(emit, text):
            return finding(f"does not compile with {GCC}", error)
        # Both translation units are the same, so compiling the second anew would show nothing.
        shutil.copy(one, other)
        if error := compile_text([GCC, "-pthread", "-o", program, one, other], "int main() {}\n"):
            return finding("does not link, included twice and without the layers above it", error)
    return None


def check_links(include: Path, headers: dict[str, Header]) -> list[Finding]:
    layers = {}
    for name in headers:
        layers.setdefault(layer_of(name), []).append(name)
    layers.pop(None, None)
    # The top first: it takes longest.
    results = side_by_side(lambda job: link_layer(include, *job), sorted(layers.items(), reverse=True))
    return [finding for finding in results if finding]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, default=ROOT / "include", help="directory that holds pooled/")
    parser.add_argument("--no-compile", action="store_true", help="skip `alone` and `layer`, the slowest")
    options = parser.parse_args(argv)

    headers = read_headers(options.include)
    if not headers:
        print(f"{options.include}/pooled holds no header", file=sys.stderr)
        return 2
    findings = (
        check_layers(headers)
        + check_cycles(headers)
        + check_length(headers)
        + check_version(headers, options.include.parent / "CMakeLists.txt")
    )
    for header in headers.values():
        findings += check_opening(header) + check_macros(header)
    if not options.no_compile:
        findings += check_compilers() or (
            check_alone(options.include, headers)
            + check_calls(options.include, headers)
            + check_links(options.include, headers)
        )

    for finding in sorted(findings):
        print(finding)
    print(f"layers: {len(headers)} headers, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
