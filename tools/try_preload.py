#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs this machine's programs with and without a preloaded library, and compares what they write and how they end.

usage: try_preload.py LIBRARY [--jobs-only]

Each program of /usr/bin that needs libstdc++ is asked for its --version, and a number of them do a job. A program that
differs is run once more without the library, since some print times or addresses.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = """#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>
int main() {
    std::map<std::string, std::vector<std::shared_ptr<int>>> all;
    for (int i = 0; i < 1000; ++i) all[std::to_string(i % 37)].push_back(std::make_shared<int>(i));
    std::cout << all.size() << std::regex_match("abc", std::regex("[a-c]+")) << '\\n';
}
"""
# Run in a directory with SOURCE as a.cpp, and a Git repository; what they write there is compared, too.
JOBS = {
    "g++": "g++ -std=c++20 -O2 -g a.cpp -o a.out && ./a.out && objdump -d a.out",
    "g++ -flto": "g++ -std=c++20 -O2 -flto a.cpp -o a.out && ./a.out",
    "clang": "clang++-19 -std=c++20 -O2 -g a.cpp -o a.out && ./a.out && llvm-dwarfdump a.out",
    "clang, libc++": "clang++-19 -std=c++20 -O2 -stdlib=libc++ a.cpp -o a.out && ./a.out",
    "clang -fsyntax-only": "clang++-19 -std=c++20 -Xclang -ast-dump=json -fsyntax-only a.cpp | wc -c",
    "clang-tidy": "clang-tidy-19 --checks='-*,modernize-*' a.cpp -- -std=c++20",
    "clang-format": "clang-format-19 a.cpp",
    "cmake, ninja": "cmake -G Ninja -S . -B b && ninja -C b && b/program && ctest --test-dir b",
    "doxygen": "doxygen -g d >/dev/null && doxygen d >/dev/null 2>&1 && cat html/*.html | wc -c",
    "gdb": "g++ -g a.cpp -o a.out && gdb -batch -ex 'break main' -ex run -ex 'info symbol main' -ex 'list 8' a.out",
    "apt-get": "apt-get -s install hello",
    "apt-cache": "apt-cache search pool | sort",
    "python3": "python3 -c 'import sqlite3, json; print(json.dumps([str(i) for i in range(9999)]))'",
    "node": "node -e 'console.log([...Array(1e5).keys()].map(x => \"\" + x).sort().slice(0, 50).join())'",
    "git": "git log --stat && git gc -q && git fsck",
    "perl": 'perl -e \'my %h; $h{$_ % 997} .= "x$_" for 1..100000; print length($h{5}), "\\n"\'',
    "java": "java -version",
    "rustc": "echo 'fn main() { println!(\"{:?}\", (0..9).collect::<Vec<_>>()) }' >r.rs && rustc r.rs && ./r",
    "opt": "clang-14 -S -emit-llvm -O0 -xc++ a.cpp -o a.ll 2>/dev/null; opt-14 -O3 -S a.ll | wc -l",
    "groff": "printf '.TH A 1\\n.SH NAME\\na\\n' | groff -man -Tascii",
    "ctags": "ctags --fields=+n -f - a.cpp",
    "msgfmt": 'printf \'msgid "a"\\nmsgstr "b"\\n\' >a.po && msgfmt a.po -o a.mo && msgunfmt a.mo',
}
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(p CXX)
enable_testing()
add_executable(program a.cpp)
add_test(NAME a COMMAND program)
"""


def outcome(command: str, library: str, folder: Path) -> tuple[int | str, str]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "a.cpp").write_text(SOURCE)
    (folder / "CMakeLists.txt").write_text(CMAKE)
    git = "git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm a"
    dates = {f"GIT_{who}_DATE": "1700000000 +0000" for who in ("AUTHOR", "COMMITTER")}
    run = {"cwd": folder, "capture_output": True, "stdin": subprocess.DEVNULL, "check": False}
    subprocess.run(["sh", "-c", git], env=os.environ | dates, **run)
    preload = {"LD_PRELOAD": library} if library else {}
    try:
        done = subprocess.run(["sh", "-c", command], env=os.environ | preload, timeout=300, **run)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    text = (done.stdout + done.stderr).decode(errors="replace")
    # Without seconds, and sorted: parallel parts write in any order.
    lines = sorted(re.sub(r"\d+\.\d+(?= *s)", "#", text).split("\n"))
    return done.returncode, "\n".join(lines)


def verdict(command: str, library: str, folder: Path) -> str:
    """Empty: no difference."""
    plain = outcome(command, "", folder)
    preloaded = outcome(command, library, folder)
    if preloaded == plain:
        return ""
    again = outcome(command, "", folder)
    if again != plain and again[0] == preloaded[0] and len(again[1].split("\n")) == len(preloaded[1].split("\n")):
        return ""  # it writes times or addresses
    return f"status {plain[0]}, preloaded {preloaded[0]}\n{plain[1][-500:]}\n--- preloaded\n{preloaded[1][-500:]}"


def needs_libstdcxx(file: Path) -> bool:
    return "libstdc++" in subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=lambda path: str(Path(path).resolve(strict=True)))
    parser.add_argument("--jobs-only", action="store_true")
    options = parser.parse_args()
    commands = {job: command for job, command in JOBS.items() if shutil.which(command.split()[0])}
    if not options.jobs_only:
        programs = (file for file in sorted(Path("/usr/bin").iterdir()) if file.is_file() and needs_libstdcxx(file))
        commands |= {file.name: f"{file} --version" for file in programs}
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands.items():
            problem = verdict(command, options.library, Path(folder) / "work")
            different += problem != ""
            print(f"{name}: {problem or 'the same'}", flush=True)
    print(f"{len(commands)} programs, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
