#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that the unit tests mirror the headers: one file a header, named for it.

usage: lint_tests.py [--root DIR]

  untested   a header include/pooled/LAYER/NAME.hpp without test/unit/LAYER/NAME.cpp, unless UNTESTED says why
  stray      a test file that is named neither for a header nor for an aspect of one, NAME_ASPECT.cpp
  stale      a header in UNTESTED that does not exist, or has a test file after all

The headers of a folder include/pooled/LAYER/NAME/ are parts of LAYER/NAME.hpp: a test file of that one tests them.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CHECKED_BUILD = "empty unless POOLED_CHECKED is 1, which is one program's choice: behaviour/misuse*.cpp"
SANITIZE = "empty unless POOLED_SANITIZE is 1: test/reports"
PLUGINS = "takes several copies of the library in one process: test/plugins"
UNTESTED = {
    "base/abi_name.hpp": "macros: test/configuration, and test/plugins by builds that must not share a symbol",
    "base/macros.hpp": "macros, which every test uses",
    "compat/recycle_stock.hpp": "a part of recycle.hpp, with no interface of its own to users: compat/recycle*.cpp",
    "compat/shared_from_this.hpp": "one function, seen through recycle.hpp and boost_intrusive_pool.hpp alone",
    "heap/fill.hpp": CHECKED_BUILD,
    "heap/malloc_map.hpp": SANITIZE,
    "object/own_core.hpp": "how pools with an extension are made: object/free_list.cpp, object_pool*.cpp",
    "os/raw_mutex.hpp": "mutex.hpp is this lock behind the fork gate: os/mutex.cpp",
    "os/sanitizer.hpp": SANITIZE,
    "pool/checks.hpp": CHECKED_BUILD,
    "pool/core_memory.hpp": "functions of the core: pool/core.cpp",
    "pool/core_table.hpp": "the registry's table: pool/registry.cpp",
    "pool/dead_pools.hpp": CHECKED_BUILD,
    "pool/foreign.hpp": PLUGINS,
    "pool/in_copy.hpp": PLUGINS,
    "pool/local_use.hpp": CHECKED_BUILD,
    "pool/malloc_blocks.hpp": SANITIZE,
    "pool/reserve.hpp": "pool::reserve and trim, out of line: pool/pool_reserve.cpp",
    "pool/slow_path.hpp": "the part of fast_path.hpp that is out of line: pool/fast_path.cpp",
    "pool/stale_owner.hpp": CHECKED_BUILD,
    "smart/counted_checks.hpp": CHECKED_BUILD,
}


def headers_in(root: Path) -> set[str]:
    """LAYER/NAME of each header, NAME of those in no layer; the parts of a public header under its name."""
    base = root / "include" / "pooled"
    names = set()
    for path in base.rglob("*.hpp"):
        parts = path.relative_to(base).with_suffix("").parts
        is_part = len(parts) > 2 and (base / parts[0] / f"{parts[1]}.hpp").is_file()
        names.add("/".join(parts[:2] if is_part else parts))
    return names


def tests_in(root: Path) -> set[str]:
    base = root / "test" / "unit"
    return {path.relative_to(base).with_suffix("").as_posix() for path in base.rglob("*.cpp")}


def is_named_for(test: str, header: str) -> bool:
    return test == header or test.startswith(f"{header}_")


def findings_in(root: Path, untested: dict[str, str]) -> list[str]:
    headers = headers_in(root)
    tests = tests_in(root)
    listed = {name.removesuffix(".hpp") for name in untested}
    findings = []
    for name in headers - tests - listed:
        if "/" not in name:  # pooled.hpp and its like include others, and define little
            continue
        findings.append(
            f"include/pooled/{name}.hpp:1: has no test of its own: write test/unit/{name}.cpp, or give the reason in "
            "UNTESTED in tools/lint_tests.py"
        )
    for name in tests:
        if not any(is_named_for(name, header) for header in headers):
            findings.append(
                f"test/unit/{name}.cpp:1: is named for no header: name it HEADER.cpp or HEADER_ASPECT.cpp in the "
                "folder of the header's layer, or move it to test/behaviour"
            )
    for name in listed & tests:
        findings.append(f"tools/lint_tests.py:1: {name}.hpp has a test: take it out of UNTESTED")
    for name in listed - headers:
        findings.append(f"tools/lint_tests.py:1: {name}.hpp does not exist: take it out of UNTESTED")
    return sorted(findings)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="directory that holds include/ and test/")
    options = parser.parse_args(argv)
    headers = headers_in(options.root)
    if not headers:
        print(f"{options.root}/include/pooled holds no header", file=sys.stderr)
        return 2
    findings = findings_in(options.root, UNTESTED)
    for finding in findings:
        print(finding)
    print(f"tests: {len(headers)} headers, {len(tests_in(options.root))} unit test files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
