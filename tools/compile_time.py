#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Measures what each public header costs to compile, and writes CPU seconds as JSON.

usage: compile_time.py [--runs N] [--limit SECONDS] [--include DIRECTORY] [--compiler COMMAND]... [--kind KIND]...
                       [--output FILE] [HEADER]...

Each header is compiled in a source of its own with one line that uses it, because templates cost most when they are
instantiated: plain (-std=c++20), optimized (-O2) and against libpooled (-O2 -DPOOLED_SHARED=1) with each compiler, and
sanitized (-g -O1 -fsanitize=address,undefined) with GCC. The first rows are what a user pays without the library:
std::make_shared, a pool of <memory_resource>, and, where Boost is installed, one of Boost.Pool. Only one compiler runs
at a time.
A figure is the median of the runs: user and system time of the compiler with all that it started. What takes long is
run once; what takes longer than the limit is stopped and has no figure. code_bytes is the code of the object file.

The public headers are pooled.hpp, the headers that it includes, and the headers of compat/ that USES knows. They are
found by name, in whatever folder they lie. HEADER, as it is included, chooses some of them.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ["g++", "clang++-19"]
KINDS = {
    "plain": ["-std=c++20"],
    "optimized": ["-std=c++20", "-O2"],
    "libpooled": ["-std=c++20", "-O2", "-DPOOLED_SHARED=1"],
    "sanitized": ["-std=c++20", "-g", "-O1", "-fsanitize=address,undefined"],
}
LONG_SECONDS = 20  # of which one run is enough
GCC = re.compile(r"(^|[/-])g\+\+(-\d+)?$")
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


@dataclass
class Figure:
    header: str
    compiler: str
    kind: str
    cpu_seconds: float | None = None  # None: it did not compile
    runs: list[float] = field(default_factory=list)
    code_bytes: int = 0
    error: str = ""


def public_headers(include: Path) -> dict[str, str]:
    """The public headers, as they are included, each with the line that uses it (empty: none is known)."""
    main = next(iter(sorted(include.glob("pooled/pooled.hpp"))), None)
    if main is None:
        raise FileNotFoundError(f"{include} has no pooled/pooled.hpp")
    included = OWN_INCLUDE.findall(main.read_text(encoding="utf-8"))
    found = {"pooled/pooled.hpp": USES["pooled"]}
    found.update({name: USES.get(Path(name).stem, "") for name in included})
    for path in sorted(include.glob("pooled/*/*.hpp")):
        name = path.relative_to(include).as_posix()
        if path.parent.name == "compat":
            if path.stem in COMPAT_USES:
                found[name] = COMPAT_USES[path.stem]
        elif path.stem in USES and path.stem not in {Path(each).stem for each in found}:
            found[name] = USES[path.stem]
    return found


def source_of(header: str, use: str) -> str:
    include = header if header.startswith("<") else f"<{header}>"
    return f"#include {include}\nvoid use() {{ {use} }}\n"


def cpu_seconds(command: list[str], limit: int) -> tuple[float, str]:
    """User and system time of a command and its children, and its output when it failed. No process of it may take more
    than `limit` CPU seconds."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))

    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=limited
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for: not by Popen again
        output.seek(0)
        said = output.read().decode(errors="replace")
    failed = (said or f"exit status {process.returncode}") if process.returncode != 0 else ""
    seconds = usage.ru_utime + usage.ru_stime
    # The kernel's account of the seconds differs from ours: a driver whose compiler was stopped is known by ours alone.
    stopped = process.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    if stopped or (failed and seconds > 0.9 * limit):
        failed = f"takes more than {limit} CPU seconds"
    return seconds, failed


def first_error(output: str) -> str:
    lines = output.splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else output)


def measure(header: str, use: str, compiler: str, kind: str, include: Path, runs: int, limit: int) -> Figure:
    figure = Figure(header, compiler, kind)
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "use.cpp"
        source.write_text(source_of(header, use), encoding="utf-8")
        command = [compiler, *KINDS[kind], f"-I{include}", "-c", str(source), "-o", str(source.with_suffix(".o"))]
        while len(figure.runs) < runs and sum(figure.runs) < LONG_SECONDS:
            seconds, failed = cpu_seconds(command, limit)
            if failed:
                figure.error = first_error(failed)
                return figure
            figure.runs.append(round(seconds, 3))
        sizes = subprocess.run(["size", str(source.with_suffix(".o"))], capture_output=True, text=True, check=True)
        figure.code_bytes = int(sizes.stdout.splitlines()[1].split()[0])
    figure.cpu_seconds = round(statistics.median(figure.runs), 3)
    return figure


def version_of(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.split("\n", 1)[0]


def kinds_of(compiler: str) -> list[str]:
    return [kind for kind in KINDS if kind != "sanitized" or GCC.search(compiler)]


def baselines() -> dict[str, str]:
    return {name: use for name, use in BASELINES.items() if "boost" not in name or BOOST.exists()}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="CPU seconds that each public header costs to compile, as JSON")
    parser.add_argument("header", nargs="*", help="as it is included, e.g. pooled/pooled.hpp; default: all public ones")
    parser.add_argument("--runs", type=int, default=3, help="compilations of each; the median counts (default 3)")
    parser.add_argument("--limit", type=int, default=300, help="CPU seconds of one compilation (default 300)")
    parser.add_argument("--include", type=Path, default=ROOT / "include", help="the directory that holds pooled/")
    parser.add_argument("--compiler", action="append", help=f"may be given several times; default {COMPILERS}")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="may be given several times; default: all")
    parser.add_argument("--output", type=Path, default=ROOT / "build/compile_time.json")
    parsed = parser.parse_args(arguments)
    if parsed.runs < 1 or parsed.limit < 1:
        parser.error("--runs and --limit must be at least 1")
    return parsed


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    try:
        headers = public_headers(asked.include)
    except FileNotFoundError as error:
        print(f"compile_time: {error}", file=sys.stderr)
        return 2
    if unknown := sorted(set(asked.header) - set(headers)):
        print(f"compile_time: no public header {', '.join(unknown)}; there are: {', '.join(headers)}", file=sys.stderr)
        return 2
    chosen = {name: use for name, use in headers.items() if not asked.header or name in asked.header}

    compilers = []
    for compiler in asked.compiler or COMPILERS:
        if shutil.which(compiler):
            compilers.append(compiler)
        else:
            print(f"compile_time: {compiler} is not installed, skipped", file=sys.stderr)
    figures = []
    for compiler in compilers:
        kinds = [kind for kind in kinds_of(compiler) if not asked.kind or kind in asked.kind]
        for header, use in {**baselines(), **chosen}.items():
            for kind in kinds:  # next to each other: the machine's speed changes
                figure = measure(header, use, compiler, kind, asked.include, asked.runs, asked.limit)
                figures.append(figure)
                shown = f"{figure.cpu_seconds:6.2f} s" if figure.cpu_seconds is not None else f"FAILED: {figure.error}"
                print(f"{compiler:12} {kind:10} {header:40} {shown}", flush=True)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    table = {
        "compilers": {compiler: version_of(compiler) for compiler in compilers},
        "flags": KINDS,
        "uses": {**baselines(), **chosen},
        "figures": [asdict(figure) for figure in figures],
    }
    asked.output.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(asked.output)
    return 1 if any(figure.error for figure in figures) or not figures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
