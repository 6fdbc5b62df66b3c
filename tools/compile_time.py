#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Measures what each public header costs to compile, and writes CPU seconds as JSON.

usage: compile_time.py [--runs N] [--kind KIND]... [HEADER]...
       compile_time.py --types N [--runs N]

Each header is compiled in a source of its own with one line that uses it, because templates cost most when they are
instantiated: plain (-std=c++20), optimized (-O2) and against libpooled (-O2 -DPOOLED_SHARED=1) with each compiler, and
sanitized (-g -O1 -fsanitize=address,undefined) with GCC. The first rows are what a user pays without the library:
std::make_shared, a pool of <memory_resource>, and, where Boost is installed, one of Boost.Pool. Only one compiler runs
at a time. A figure is the median of the runs: user and system time of the compiler with all that it started; a source
that does not compile ends the program. code_bytes is the code of the object file.

The public headers are pooled.hpp, the headers that it includes, and the headers of compat/ that USES knows. HEADER, as
it is included, chooses some of them.

With --types, instead: what one more type costs that a generic function makes by std::make_shared, or by
pooled::make_shared (headers alone, and against libpooled): programs of N types and of one are compiled with -O2.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE, COMPAT, OUTPUT = ROOT / "include", ROOT / "compat/include", ROOT / "build/compile_time.json"
COMPILERS = ["g++", "clang++-19"]
KINDS = {
    "plain": ["-std=c++20"],
    "optimized": ["-std=c++20", "-O2"],
    "libpooled": ["-std=c++20", "-O2", "-DPOOLED_SHARED=1"],
    "sanitized": ["-std=c++20", "-g", "-O1", "-fsanitize=address,undefined"],
}
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](pooled/[\w./]+\.hpp)[>"]', re.MULTILINE)

# What a user of the header writes, by the header's name. A header that is not here is included and no more.
USES = {
    "pooled": "auto p = pooled::make_shared<int>(1);",
    "make_shared": "auto p = pooled::make_shared<int>(1);",
    "make_unique": "auto p = pooled::make_unique<int>(1);",
    "make_rc": "auto p = pooled::make_rc<int>(1);",
    "unique_ptr": "pooled::unique_ptr<int> p;",
    "rc_ptr": "pooled::rc_ptr<int> p;",
    "allocator": "pooled::allocator<int> a; a.deallocate(a.allocate(1), 1);",
    "reclaim_scope": "pooled::reclaim_scope scope;",
    "pool": "pooled::pool p; p.deallocate(p.allocate(64, 8), 64, 8);",
    "local_pool": "pooled::local_pool p; p.deallocate(p.allocate(64, 8), 64, 8);",
    "default_pool": "pooled::default_pool().trim();",
    "object_pool": "pooled::object_pool<int> pool; auto p = pool.acquire();",
}
COMPAT_USES = {
    "boost_intrusive_pool": "struct item : memorypool::boost_intrusive_pool_item {};"
    " memorypool::boost_intrusive_pool<item> pool; auto p = pool.allocate();",
    "boost_intrusive_ptr": "struct item : pooled::enable_intrusive_ptr {}; auto p = pooled::make_intrusive<item>();",
    "boost_pool": "pooled::compat::object_pool<int> pool; pool.free(pool.malloc());",
    "pmr": "pooled::compat::synchronized_pool_resource r; r.deallocate(r.allocate(64, 8), 64, 8);",
    "recycle": "recycle::shared_pool<int> pool; auto p = pool.allocate();",
}
BASELINES = {
    "<memory>": "auto p = std::make_shared<int>(1);",
    "<memory_resource>": "std::pmr::synchronized_pool_resource r; r.deallocate(r.allocate(64, 8), 64, 8);",
    "<boost/pool/object_pool.hpp>": "boost::object_pool<int> pool; pool.free(pool.malloc());",
}
BOOST = Path("/usr/include/boost/version.hpp")


def public_headers() -> dict[str, str]:
    """The public headers, as they are included, each with the line that uses it (empty: none is known)."""
    included = OWN_INCLUDE.findall((INCLUDE / "pooled/pooled.hpp").read_text(encoding="utf-8"))
    found = {name: USES.get(Path(name).stem, "") for name in ["pooled/pooled.hpp", *included]}
    return found | {f"pooled/compat/{name}.hpp": use for name, use in COMPAT_USES.items()}


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command and its children."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for: not by Popen again
    if process.returncode:
        raise SystemExit(f"compile_time: failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime


def measure(header: str, use: str, compiler: str, kind: str, runs: int) -> dict:
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "use.cpp"
        name = header if header.startswith("<") else f"<{header}>"
        source.write_text(f"#include {name}\nvoid use() {{ {use} }}\n", encoding="utf-8")
        command = [
            compiler,
            *KINDS[kind],
            f"-I{INCLUDE}",
            f"-I{COMPAT}",
            "-c",
            str(source),
            "-o",
            str(source.with_suffix(".o")),
        ]
        taken = [round(cpu_seconds(command), 3) for _ in range(runs)]
        sizes = subprocess.run(["size", str(source.with_suffix(".o"))], capture_output=True, text=True, check=True)
    code_bytes = int(sizes.stdout.splitlines()[1].split()[0])
    found = {"header": header, "compiler": compiler, "kind": kind}
    return found | {"cpu_seconds": round(statistics.median(taken), 3), "runs": taken, "code_bytes": code_bytes}


MAKERS = {
    "std::make_shared": ("std::make_shared", "<memory>", []),
    "pooled::make_shared": ("pooled::make_shared", "<pooled/pooled.hpp>", []),
    "pooled::make_shared, libpooled": ("pooled::make_shared", "<pooled/pooled.hpp>", ["-DPOOLED_STATIC=1"]),
}


def program_of(types: int, maker: str, header: str) -> str:
    """A program that makes so many types of one family, of eight sizes, each with a virtual destructor and a string."""
    lines = [
        f"#include {header}",
        "#include <memory>",
        "#include <string>",
        "#include <utility>",
        "template <class T, class... Args> std::shared_ptr<T> create(Args&&... args) {",
        f"    return {maker}<T>(std::forward<Args>(args)...);",
        "}",
        "struct node { virtual ~node() = default; virtual int kind() const = 0; };",
    ]
    for i in range(types):
        lines += [
            f"struct node_{i} : node {{",
            f"    node_{i}(int n, std::string s) : number(n), name(std::move(s)) {{}}",
            f"    int kind() const override {{ return {i}; }}",
            f"    int number; std::string name; std::shared_ptr<node> next; long more[{1 + i % 8}] = {{}};",
            "};",
            f'std::shared_ptr<node> make_{i}(int n) {{ return create<node_{i}>(n, "name"); }}',
        ]
    return "\n".join(lines) + "\n"


def measure_types(types: int, compiler: str, runs: int) -> list[dict]:
    """What a type costs with each of MAKERS: CPU milliseconds, bytes of code and of data, ratios to the standard."""
    taken: dict[tuple[str, int], list[float]] = {}
    sizes: dict[tuple[str, int], list[int]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(runs):
            for name, (maker, header, macros) in MAKERS.items():  # next to each other: the machine's speed changes
                for count in (1, types):
                    source = Path(directory) / "types.cpp"
                    source.write_text(program_of(count, maker, header), encoding="utf-8")
                    output = source.with_suffix(".o")
                    command = [
                        compiler,
                        *KINDS["optimized"],
                        *macros,
                        f"-I{INCLUDE}",
                        "-c",
                        str(source),
                        "-o",
                        str(output),
                    ]
                    taken.setdefault((name, count), []).append(cpu_seconds(command))
                    size = subprocess.run(["size", str(output)], capture_output=True, text=True, check=True)
                    sizes[name, count] = [int(each) for each in size.stdout.splitlines()[1].split()[:2]]
    found = []
    for name in MAKERS:
        seconds = statistics.median(taken[name, types]) - statistics.median(taken[name, 1])
        text, data = (many - one for many, one in zip(sizes[name, types], sizes[name, 1], strict=True))
        per = {"milliseconds": 1000 * seconds / (types - 1), "code": text / (types - 1), "data": data / (types - 1)}
        found.append({"maker": name, "compiler": compiler} | {each: round(value, 1) for each, value in per.items()})
    for each in found:
        each["time_ratio"] = round(each["milliseconds"] / found[0]["milliseconds"], 2)
        each["code_ratio"] = round(each["code"] / found[0]["code"], 2)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="CPU seconds that each public header costs to compile, as JSON")
    parser.add_argument("header", nargs="*", help="as it is included, e.g. pooled/pooled.hpp; default: all public ones")
    parser.add_argument("--runs", type=int, default=3, help="compilations of each; the median counts (default 3)")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="may be given several times; default: all")
    parser.add_argument("--types", type=int, help="what one more type costs, from a program of so many")
    asked = parser.parse_args(arguments)
    if asked.types is not None:
        if asked.types < 2:
            parser.error("--types: at least 2")
        for compiler in filter(shutil.which, COMPILERS):
            for each in measure_types(asked.types, compiler, asked.runs):
                print(
                    f"{compiler:12} {each['maker']:32} {each['milliseconds']:6.1f} ms {each['code']:7.0f} B of code "
                    f"{each['data']:5.0f} B of data   ratios {each['time_ratio']:.2f} {each['code_ratio']:.2f}",
                    flush=True,
                )
        return 0
    headers = public_headers()
    if unknown := sorted(set(asked.header) - set(headers)):
        parser.error(f"no public header {', '.join(unknown)}; there are: {', '.join(headers)}")
    without = {name: use for name, use in BASELINES.items() if "boost" not in name or BOOST.exists()}
    uses = without | {name: use for name, use in headers.items() if not asked.header or name in asked.header}
    compilers = [each for each in COMPILERS if shutil.which(each)]
    figures = []
    for compiler in compilers:
        kinds = [kind for kind in asked.kind or KINDS if kind != "sanitized" or "clang" not in compiler]
        for header, use in uses.items():
            for kind in kinds:  # next to each other: the machine's speed changes
                figures.append(measure(header, use, compiler, kind, asked.runs))
                print(f"{compiler:12} {kind:10} {header:40} {figures[-1]['cpu_seconds']:6.2f} s", flush=True)
    OUTPUT.parent.mkdir(exist_ok=True)
    table = {"compilers": compilers, "flags": KINDS, "uses": uses, "figures": figures}
    OUTPUT.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(OUTPUT)
    return 0 if figures else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
