#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes what a release consists of; what `make package` calls.

usage: package.py [--output DIRECTORY] [--archive-only]

DIRECTORY is build/package by default. It gets
  pooled-VERSION.tar.gz   the sources, in one folder of that name: for FetchContent, for CPM, or to unpack and build
  pooled.wrap             for Meson: finds the archive in subprojects/packagefiles/ of the project that uses it
  pooled-VERSION.hpp      the single header
  poolbench-*.whl, poolprofile-*.whl  the benchmark and the profiler, for pip
  SHA256SUMS
The archive depends on nothing but the files in it: the same files give the same archive.
"""

import argparse
import gzip
import hashlib
import importlib.util
import io
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from single_header import version  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
# Of a copy without git: what a build or a tool may have left there.
LEFT_BY_BUILDS = {"build", ".venv", "__pycache__", ".pytest_cache", ".ruff_cache", ".cache"}
# 2000-01-01: archives of the same files are the same, and tools that refuse dates before 1980 accept it.
DATE = 946_684_800
WRAP = """\
# Copy this file to subprojects/ and {archive} to subprojects/packagefiles/ of a project;
# dependency('pooled') then finds it.
[wrap-file]
directory = {folder}
source_filename = {archive}
source_hash = {digest}

[provide]
dependency_names = pooled
"""


def files(root: Path) -> list[Path]:
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True)
        return sorted(Path(name) for name in listed.stdout.split("\0") if name and (root / name).is_file())
    every = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path for path in every if not LEFT_BY_BUILDS & set(path.parts))


def archive_of(root: Path, folder: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in files(root):
            content = (root / path).read_bytes()
            entry = tarfile.TarInfo(f"{folder}/{path.as_posix()}")
            entry.size, entry.mtime = len(content), DATE
            entry.mode = 0o755 if (root / path).stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def run(*command: str | Path) -> None:
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "build/package")
    parser.add_argument("--archive-only", action="store_true", help="the archive and the wrap")
    options = parser.parse_args(words)
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    for old in [*output.glob("pool*"), *output.glob("SHA256SUMS")]:
        old.unlink()

    folder = f"pooled-{version(ROOT / 'include')}"
    content = archive_of(ROOT, folder)
    (output / f"{folder}.tar.gz").write_bytes(content)
    names = {"folder": folder, "archive": f"{folder}.tar.gz", "digest": hashlib.sha256(content).hexdigest()}
    (output / "pooled.wrap").write_text(WRAP.format(**names), encoding="utf-8")
    if not options.archive_only:
        run(ROOT / "tools/single_header.py", output / f"{folder}.hpp")
        # Without the network where setuptools is installed, as tools/setup does.
        isolation = ["--no-build-isolation"] if importlib.util.find_spec("setuptools") else []
        command = ["-m", "pip", "-q", "wheel", "--no-deps", *isolation, "--wheel-dir", output]
        run(*command, ROOT / "poolbench", ROOT / "poolprofile")
    written = sorted(path for path in output.iterdir() if path.name.startswith("pool"))
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in written)
    (output / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    for path in written:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
