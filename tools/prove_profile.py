#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Repeats what docs/profile.md says of `profile` and `advise`, in twenty minutes on a quiet machine:

    tools/prove_profile.py RESULTS.json [--minutes 25] [--runs 5] [--write]

1. The examples: what was predicted, what the change saved, the overhead (poolbench.profile.proof).
2. Two programs of the package manager, qpdf and mkvmerge, where they are installed: how much pooling would save.
3. `poolbench advise` at three shapes.

Writes the file after each part; a part that cannot begin in the time is named, and the exit status is 1. The next call
with the same file does the parts that are missing. With --write, docs/profile.md gets the tables of the file."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from poolbench.profile import proof  # noqa: E402
from poolbench.results import record  # noqa: E402
from poolbench.system import commit, hardware  # noqa: E402

OBJECTS, SUBTITLES = 60_000, 150_000
SHAPES = {
    "small objects, replaced by two threads": "--size 48 --threads 2 --live 100000 --pattern churn",
    "packets handed over": "--size 1500 --threads 2 --live 1000 --pattern handoff",
    "large buffers": "--size 100000 --threads 1 --live 100 --pattern burst",
}


def pdf(path: Path) -> None:
    """A page whose dictionary names many objects, each a dictionary with an array."""
    all_of_them = " ".join(f"{4 + i} 0 R" for i in range(OBJECTS))
    bodies = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
              f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /All [{all_of_them}] >>"]  # fmt: skip
    bodies += [f"<< /A {i} /B (text {i}) /C [1 2 3 4 5 6] /D << /E /F >> >>" for i in range(OBJECTS)]
    text, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(bodies, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{body}\nendobj\n".encode()
    begin = len(text)
    text += f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n".encode()
    text += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    text += f"trailer\n<< /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{begin}\n%%EOF\n".encode()
    path.write_bytes(text)


def subtitles(path: Path) -> None:
    def clock(second: int) -> str:
        return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02},000"

    lines = (f"{i + 1}\n{clock(i)} --> {clock(i + 1)}\nLine {i} of the text\n" for i in range(SUBTITLES))
    path.write_text("\n".join(lines))


PACKAGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "qpdf": (pdf, "--qdf --object-streams=disable {input} {output}"),
    "mkvmerge": (subtitles, "-q -o {output}.mks {input}"),
}


def poolbench(*words: str) -> dict:
    command = [sys.executable, "-m", "poolbench", "--quiet", *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def packaged(name: str) -> dict:
    make, words = PACKAGED[name]
    with tempfile.TemporaryDirectory(prefix="prove-") as directory:
        source = Path(directory) / ("input.pdf" if name == "qpdf" else "input.srt")
        make(source)
        arguments = words.format(input=source, output=Path(directory) / "output").split()
        return poolbench("profile", "--json", "--", shutil.which(name) or name, *arguments)


def parts(runs: int) -> dict[str, Callable[[], dict]]:
    found: dict[str, Callable[[], dict]] = {}
    for name in proof.PROGRAMS:
        found[f"example {name}"] = lambda name=name: proof.prove(name, runs)
    for name in PACKAGED:
        found[f"program {name}"] = lambda name=name: packaged(name)
    for name, words in SHAPES.items():
        found[f"advise {name}"] = lambda words=words: poolbench("advise", "--json", "--budget", "30s", *words.split())
    return found


def told(result: dict) -> str:
    done, examples = result["parts"], proof.examples_of(result)
    lines = [proof.tables(examples)] if examples["programs"] else []
    for name, part in done.items():
        if name.startswith("program "):
            together = part.get("all_pooled") or {}
            ends = [f"{together[key]:.1%}" for key in ("low", "high") if key in together]
            lines += [f"\n{name}: pooled together {'…'.join(ends) or 'nothing'}", *part.get("ranking", [])[:3]]
        if name.startswith("advise "):
            lines += [f"\n{name}:", *(json.dumps(each) for each in part.get("advice", []))]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--runs", type=int, default=5, help="interleaved runs of each form of an example")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/profile.md")
    asked = parser.parse_args()
    if asked.runs < 2:
        parser.error("--runs is 2 at least: one run has no interval")
    result = json.loads(asked.results.read_text()) if asked.results.exists() else {"parts": {}}
    # Of each part, because the next call may be of another commit, or on another machine.
    about = {"commit": commit.of_sources(), "machine": hardware.in_short(hardware.describe()), "runs": asked.runs}
    left_out, began = [], time.monotonic()
    for name, measure in parts(asked.runs).items():
        if name in result["parts"]:
            continue
        if time.monotonic() - began > 60 * asked.minutes:
            left_out.append(name)
            continue
        if name.startswith("program ") and not shutil.which(name.split()[1]):
            print(f"{name}: not installed, left out", file=sys.stderr)
            continue
        at = time.monotonic()
        busy = round(hardware.busy_share(), 3)
        found = measure()
        result["parts"][name] = {"time": record.now(), "busy_share": busy} | about | found
        asked.results.write_text(json.dumps(result, indent=1) + "\n")
        print(f"{name}: {time.monotonic() - at:.0f} s; the machine was {busy:.0%} busy", file=sys.stderr, flush=True)
    print(told(result))
    if asked.write:
        page = ROOT / "docs" / "profile.md"
        page.write_text(proof.written_into(page.read_text(), proof.examples_of(result)))
    if left_out:
        print(f"no time for: {', '.join(left_out)}; the same command again measures them", file=sys.stderr)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
