#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs every check that needs no program to be built; what `make lint` calls.

With --fix it rewrites what a tool can fix instead. With --link the example for other systems is linked, too: the first
time Zig builds their C++ libraries for that, which takes five minutes on two cores.

usage: run_lint.py [--fix | --link]
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_FORMAT = "clang-format-19"
CLANG_TIDY = "clang-tidy-19"
# Not for clang-tidy: their libraries' headers take it 10 to 20 seconds each.
SLOW_EXAMPLES = {"asio_server", "capture_pipeline", "json_documents"}
# Where nothing is run: an example is compiled, and linked on request.
UNTESTED_SYSTEMS = ["aarch64-macos", "x86_64-macos", "x86_64-freebsd", "x86_64-netbsd", "x86_64-linux-musl"]
OF_OTHER_SYSTEMS = {"platform_windows"}
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"
CXX_FOLDERS = ["include", "src", "compat", "poolheap", "test", "bench", "poolprofile", "examples"]
PYTHON_FOLDERS = ["tools", "poolbench", "poolprofile"]


def run(*command) -> bool:
    return subprocess.run([*map(str, command)], cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode == 0


def ruff(*words: str) -> bool:
    return run(sys.executable, "-m", "ruff", *words, *PYTHON_FOLDERS)


def cxx_files() -> list[Path]:
    return sorted(
        path.relative_to(ROOT)
        for folder in CXX_FOLDERS
        for suffix in ("hpp", "cpp")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    )


def check_layers() -> bool:
    return run(sys.executable, "tools/lint_layers.py")


def check_format() -> bool:
    ok = run(CLANG_FORMAT, "--dry-run", "-Werror", *cxx_files())
    if not ok:
        print("format: `make format` rewrites these files")
    return ok


def check_tidy() -> bool:
    """clang-tidy on two translation units, side by side: all headers, and all examples, each in its own namespace."""
    out = ROOT / "build" / "lint"
    shutil.rmtree(out, ignore_errors=True)
    (out / "examples").mkdir(parents=True)
    folders = [ROOT / "include", ROOT / "compat/include"]
    everything = (path.relative_to(folder) for folder in folders for path in folder.rglob("*.hpp"))
    headers = sorted(path for path in everything if path.stem not in OF_OTHER_SYSTEMS)
    examples = [
        path.relative_to(ROOT) for path in sorted((ROOT / "examples").glob("*.cpp")) if path.stem not in SLOW_EXAMPLES
    ]
    for name in examples:
        lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
        last_include = max(number for number, line in enumerate(lines) if line.startswith("#include"))
        # A replaced operator new must stay in the global namespace.
        if not any(line.startswith("void* operator new(") for line in lines):
            lines[lines.index("", last_include)] = f"namespace {name.stem} {{"  # the others keep their numbers
            lines.append("}")
        (out / name).write_text("\n".join(lines), encoding="utf-8")
    units = {"all_headers.cpp": headers, "all_examples.cpp": examples}
    for unit, names in units.items():
        (out / unit).write_text("".join(f'#include "{name.as_posix()}"\n' for name in names), encoding="utf-8")

    def tidy(unit: str):
        command = [CLANG_TIDY, "--quiet", "--warnings-as-errors=*", f"--config-file={ROOT / '.clang-tidy'}"]
        command += ["--header-filter=(include/pooled|lint/examples)/.*", "--checks=-bugprone-suspicious-include"]
        command += [str(out / unit), "--", "-std=c++20"]
        command += [f"-I{ROOT / folder}" for folder in ("include", "compat/include", ".", "test", "examples")]
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
        return subprocess.run(command, cwd=ROOT, check=False, **streams)

    with ThreadPoolExecutor() as workers:
        results = list(workers.map(tidy, units))
    # A header is seen from many files: each of its findings is printed once.
    told = set()
    for result in results:
        if result.returncode == 0:
            continue
        findings = re.split(r"^(?=\S+:\d+:\d+: (?:error|warning))", result.stdout or result.stderr, flags=re.MULTILINE)
        text = "".join(each for each in findings if each not in told)
        print(text.replace(f"{out}/", "").replace(f"{ROOT}/", ""), end="")
        told.update(findings)
    return all(result.returncode == 0 for result in results)


def check_python() -> bool:
    if importlib.util.find_spec("ruff") is None:
        print("python: ruff is not in .venv, so the Python code was not checked")
        return True
    return ruff("check") and ruff("format", "--check")


def check_systems(link: bool) -> bool:
    """Compiles, and links on request, an example for systems on which nothing is run, with Zig's Clang."""
    if importlib.util.find_spec("ziglang") is None:
        print("systems: ziglang is not in .venv, so the library was not compiled for other systems")
        return True
    out = ROOT / "build/lint-systems"
    out.mkdir(parents=True, exist_ok=True)

    def builds(target: str) -> bool:
        flags = ["-target", target, "-std=c++20", "-DPOOLED_UNTESTED_PLATFORM=1", "-Iinclude"]
        flags += ["-fno-sanitize=undefined", "-g0"]  # which Zig adds, for a quarter of the time
        command = [sys.executable, "-m", "ziglang", "c++", *flags, "examples/quick_start.cpp"]
        return run(*command, *([] if link else ["-c"]), "-o", out / target)

    with ThreadPoolExecutor(2) as workers:
        return all(list(workers.map(builds, UNTESTED_SYSTEMS)))


def check_mutants() -> bool:
    return run(sys.executable, "tools/run_mutants.py", "--check")


def check_shell() -> bool:
    return all(run("bash", "-n", script) for script in ("tools/setup", "tools/build_mallocs", ".ci/run"))


def check_workflows() -> bool:
    """actionlint as it is installed, else as Go builds it; without either the workflows are not checked."""
    for command in (["actionlint"], ["go", "run", ACTIONLINT]):
        streams = {"capture_output": True, "stdin": subprocess.DEVNULL}
        if shutil.which(command[0]) and subprocess.run([*command, "-version"], check=False, **streams).returncode == 0:
            return run(*command, *sorted((ROOT / ".github/workflows").glob("*.yml")))
    print("workflows: actionlint is not installed and Go cannot build it, so they were not checked")
    return True


def fix() -> int:
    ok = run(CLANG_FORMAT, "-i", *cxx_files())
    if importlib.util.find_spec("ruff"):
        ok = all([ok, ruff("check", "--fix"), ruff("format")])
    return 0 if ok else 1


def main(argv: list[str]) -> int:
    if argv == ["--fix"]:
        return fix()
    if argv not in ([], ["--link"]):
        print(__doc__, file=sys.stderr)
        return 2
    checks = {
        "layers": check_layers,
        "tidy": check_tidy,
        "systems": lambda: check_systems(link=bool(argv)),
        "format": check_format,
        "python": check_python,
        "mutants": check_mutants,
        "shell": check_shell,
        "workflows": check_workflows,
    }
    failed = []

    def run_check(name: str):
        started = time.monotonic()
        ok = checks[name]()
        print(f"lint: {name:11}{'ok' if ok else 'FAILED':8}{time.monotonic() - started:5.1f} s", flush=True)
        if not ok:
            failed.append(name)

    # Two at a time: many leave a core idle, at their end or throughout.
    with ThreadPoolExecutor(2) as workers:
        list(workers.map(run_check, checks))
    print(f"make lint: {'FAILED: ' + ', '.join(failed) if failed else 'PASSED'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
