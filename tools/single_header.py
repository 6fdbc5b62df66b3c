#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes the library as a single header; what `make single-header` calls.

usage: single_header.py [OUTPUT]

OUTPUT is build/single_header/pooled.hpp by default. quom (tools/requirements.txt) puts the headers of pooled/pooled.hpp
into one file; compat/ is not part of it. The first line has the version.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCE = "// SPDX-License-Identifier: BSL-1.0\n"


def version(include: Path) -> str:
    text = (include / "pooled/version.hpp").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^#define POOLED_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", text, re.MULTILINE))
    return ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH"))


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(each.startswith("-") for each in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    if importlib.util.find_spec("quom") is None:
        raise SystemExit(f"single_header.py: quom is missing; install it with `{sys.executable} -m pip install quom`")
    output = Path(arguments[0]) if arguments else ROOT / "build/single_header/pooled.hpp"
    include = ROOT / "include"
    with tempfile.TemporaryDirectory() as directory:
        amalgamated = Path(directory) / "pooled.hpp"
        command = [sys.executable, "-m", "quom", "-I", include, include / "pooled/pooled.hpp", amalgamated]
        if status := subprocess.run(list(map(str, command)), check=False).returncode:
            return status
        text = amalgamated.read_text(encoding="utf-8")
    # The version is in the first line, and the licence is there once.
    text = re.sub(rf"(?:^[ \t]*\n)*^{re.escape(LICENCE)}", "", text, flags=re.MULTILINE)
    title = f"// pooled {version(include)}: memory pools for objects owned by smart pointers, in a single header"
    text = f"{title}\n{LICENCE}{text}"
    if left := re.findall(r'^\s*#\s*include\s*"[^"]*"', text, re.MULTILINE):
        raise SystemExit(f"single_header.py: these includes were not replaced: {', '.join(left)}")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
