#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs the system's programs, each with one real job, with and without a malloc, and compares what they write.

usage: compare_programs.py [--quick] [--only REGEX] [--list] LIBRARY

A job is a shell command in a directory of its own (compare_programs.txt); its exit status, what it writes to its
streams and the files that it leaves must be the same both times. A job whose output differs between two runs without
the library, or that fails, is no measure, and is reported as such. A program that is not installed is missing.
--quick: only the jobs of programs that every system has, in seconds. --list: the result of each job.
The exit status is 0 if no output differs and something ran.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TIMEOUT = 180  # seconds, for a job

# Files that the jobs find.
C_SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { struct node* next; int key; char text[32]; };
static int compare(void const* a, void const* b) { return *(int const*)a - *(int const*)b; }
int main(void) {
    struct node* list = 0;
    int keys[1000];
    for (int i = 0; i < 1000; ++i) {
        struct node* const one = malloc(sizeof(*one));
        one->next = list; one->key = keys[i] = i * 7919 % 1000; list = one;
        snprintf(one->text, 32, "node %d", one->key);
    }
    qsort(keys, 1000, sizeof(int), compare);
    long sum = 0;
    while (list) {
        struct node* const next = list->next;
        sum += list->key * (long)strlen(list->text); free(list); list = next;
    }
    return printf("%ld %d\\n", sum, keys[500]) < 0;
}
"""
CXX_SOURCE = """#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>
int main() {
    std::map<std::string, std::vector<std::shared_ptr<int>>> m;
    for (int i = 0; i < 20000; ++i) m["key " + std::to_string(i * 7919 % 500)].push_back(std::make_shared<int>(i));
    long sum = 0;
    for (auto const& [k, v] : m) for (auto const& p : v) sum += *p * static_cast<long>(k.size());
    std::ostringstream out; out << std::regex_replace(std::string("a1b22c333"), std::regex("[0-9]+"), "#") << sum;
    std::cout << out.str() << '\\n';
}
"""
PYTHON_SOURCE = """import collections, hashlib, json, re, zlib
words = collections.Counter(w for i in range(20000) for w in f"the {i % 97} quick {i % 89} brown {i % 83}".split())
tree = {str(i): [{"n": j, "s": "x" * j} for j in range(20)] for i in range(500)}
text = json.dumps(tree, sort_keys=True)
print(words.most_common(5), hashlib.sha256(text.encode()).hexdigest(), len(zlib.compress(text.encode())))
print(sum(len(m) for m in re.findall(r"x{3,7}", text)), json.loads(text) == tree)
"""
XML = (
    "<root>" + "".join(f'<item id="{i}"><name>n{i % 37}</name><v>{i * i}</v></item>' for i in range(2000)) + "</root>\n"
)
CSV = "id,name,value\n" + "".join(f"{i},name{i % 53},{i * 7919 % 1000}\n" for i in range(5000))
SQL = (
    "create table t(id integer primary key, name text, v integer);\n"
    "with recursive c(n) as (select 1 union all select n + 1 from c where n < 20000)\n"
    "  insert into t select n, 'name' || (n % 97), n * 7919 % 1000 from c;\n"
    "create index i on t(name, v);\n"
    "select name, count(*), sum(v), group_concat(distinct v % 7) from t group by name order by 3 desc limit 10;\n"
    "select count(*) from t a join t b on a.v = b.v where a.id < 300;\n"
)
TEXT = "".join(
    f"line {i}: the quick brown fox {i * 7919 % 1000} jumps over the lazy dog {i % 17}\n" for i in range(20000)
)
JSON = "[" + ",".join(f'{{"id":{i},"tags":["a{i % 7}","b{i % 11}"],"v":{i * 31 % 101}}}' for i in range(3000)) + "]\n"
MARKDOWN = "# Title\n\n" + "".join(
    f"## Part {i}\n\nText *with* `code` and [a link](http://x/{i}).\n\n- one\n- two\n\n" for i in range(100)
)
FILES = {
    "a.c": C_SOURCE, "a.cpp": CXX_SOURCE, "a.py": PYTHON_SOURCE, "a.xml": XML, "a.csv": CSV, "a.sql": SQL,
    "a.txt": TEXT, "a.json": JSON, "a.md": MARKDOWN,
    "b.txt": TEXT.replace("fox 7", "cat 7").replace("line 19", "row 19"),
}  # fmt: skip
# What jobs call.
FUNCTIONS = r"""
make_png() { python3 -c '
import struct, zlib
def part(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + bytes((x * y + k * 40) % 256 for x in range(320) for k in range(3)) for y in range(240))
with open("a.png", "wb") as out:
    out.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 320, 240, 8, 2, 0, 0, 0)))
    out.write(part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))
'; }
make_wav() { python3 -c '
import math, struct, wave
with wave.open("a.wav", "wb") as out:
    out.setparams((2, 2, 44100, 0, "NONE", ""))
    for i in range(88200):
        out.writeframesraw(struct.pack("<hh", int(9e3 * math.sin(i / 20)), int(9e3 * math.sin(i / 31))))
'; }
"""
JOBS_FILE = pathlib.Path(__file__).with_suffix(".txt")


def read_jobs(quick: bool) -> list[tuple[str, str]]:
    jobs = []
    for line in JOBS_FILE.read_text().splitlines():
        if quick and line == "# Others:":
            break
        if not line.startswith("#"):
            program, _, command = line.partition(": ")
            jobs.append((program, command))
    return jobs


def outcome_of(command: str, preload: str) -> tuple[str, str]:
    """A digest of what a job writes and leaves, and the end of its output."""
    if preload:
        command = f"export LD_PRELOAD={preload}\n{command}"
    with tempfile.TemporaryDirectory(prefix="job") as directory:
        for name, text in FILES.items():
            pathlib.Path(directory, name).write_text(text)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "USER") if name in os.environ}
        environment = {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC", "SOURCE_DATE_EPOCH": "1"}
        try:
            done = subprocess.run(
                ["/bin/bash", "-c", FUNCTIONS + command], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "timeout", f"ran for more than {TIMEOUT} s"
        output = done.stdout.replace(directory.encode(), b"")
        total = hashlib.sha256(output)
        total.update(str(done.returncode).encode())
        left = [] if command.count("a.out") else sorted(pathlib.Path(directory).rglob("*"))
        for path in left:
            if path.is_file() and path.suffix in (".txt", ".csv", ".c", ".json"):
                total.update(str(path.relative_to(directory)).encode() + path.read_bytes())
        return total.hexdigest(), f"status {done.returncode}: {output[-300:].decode(errors='replace')}"


def is_preloaded(library: str) -> bool:
    maps = subprocess.run(
        ["/bin/cat", "/proc/self/maps"], env={"LD_PRELOAD": library}, capture_output=True, check=False
    ).stdout
    return os.path.basename(library).encode() in maps


def judge(job: tuple[str, str], library: str) -> tuple[str, str]:
    program, command = job
    known = shutil.which(program) or program in ("postgres", "psql", "universal-ctags", "ps")
    if not known:
        return "missing", ""
    plain, text = outcome_of(command, "")
    if plain == "timeout":
        return "unusable", text
    with_library, text_with = outcome_of(command, library)
    if plain == with_library:
        return ("same", "") if text.startswith("status 0:") else ("unusable", f"  fails: {text}")
    again, _ = outcome_of(command, "")
    if again != plain:
        return "unusable", "its output differs from run to run"
    return "DIFFERENT", f"  plain: {text}\n  with:  {text_with}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="jobs whose command matches")
    parser.add_argument("--list", action="store_true", help="names the result of each job")
    given = parser.parse_args()
    library = str(pathlib.Path(given.library).resolve())
    if not is_preloaded(library):
        print(f"{library} is not what the loader maps", file=sys.stderr)
        return 1
    jobs = [job for job in read_jobs(given.quick) if re.search(given.only, ": ".join(job))]
    counts: dict[str, int] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        results = pool.map(lambda job: judge(job, library), jobs)
        for (program, command), (verdict, text) in zip(jobs, results, strict=True):
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict in ("DIFFERENT", "unusable") or given.list:
                print(f"{verdict}: {program}: {command[:150]}\n{text}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 0 if counts.get("same") and not counts.get("DIFFERENT") else 1


if __name__ == "__main__":
    sys.exit(main())
