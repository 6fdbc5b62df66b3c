# SPDX-License-Identifier: BSL-1.0
"""The mallocs of this machine: glibc's own, and those that can be preloaded."""

import contextlib
import os
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from poolbench import where
from poolbench.system import process

BUILT = where.builds() / "mallocs"  # what tools/build_mallocs built
LIBRARY_DIRECTORIES = [f"/usr/lib/{machine}-linux-gnu" for machine in ("x86_64", "aarch64")]
LIBRARY_DIRECTORIES += ["/usr/lib64", "/usr/lib", "/usr/local/lib", "/lib64", "/lib"]
# Name of the malloc, then patterns of its library, the preferred one first; the debug forms are not wanted.
LIBRARY_PATTERNS = {
    "tcmalloc": (r"libtcmalloc_minimal\.so\.\d+", r"libtcmalloc\.so\.\d+"),
    "jemalloc": (r"libjemalloc\.so\.\d+",),
    "mimalloc": (r"libmimalloc\.so\.\d+(\.\d+)?",),
    # Built here. The pinned version is in the file's name.
    "mimalloc2": (r"libmimalloc2\.so\.2\.\d+\.\d+",),
    "mimalloc3": (r"libmimalloc3\.so\.3\.\d+\.\d+",),
    "snmalloc": (r"libsnmalloc\.so\.[\d.]+",),
    "rpmalloc": (r"librpmalloc\.so\.[\d.]+\+\w+",),
    "jemalloc-crate": (r"libjemalloc-crate\.so\.[\d.]+",),
    "tcmalloc-google": (r"libtcmalloc-google\.so\.[\d.]+",),
}
PACKAGES = {"tcmalloc": "libtcmalloc-minimal4", "jemalloc": "libjemalloc2", "mimalloc": "libmimalloc2.0"}
DEFAULT = "glibc"
NAMES = [DEFAULT, *LIBRARY_PATTERNS]
# operator new on the default pool (docs/new-delete.md): a contender like the mallocs, and no rival.
OURS = "pooled-new"

# Asked of the library itself, in a process that has it preloaded.
VERSION_PROGRAM = """
import ctypes, sys
lib, name = ctypes.CDLL(None), sys.argv[1]
if name == "tcmalloc":
    lib.tc_version.restype = ctypes.c_char_p
    print(lib.tc_version(None, None, None).decode())
elif name.startswith("mimalloc"):
    v = lib.mi_version()  # 209 is 2.0.9; since 2.3, 20302 is 2.3.2
    print(f"{v // 10000}.{v // 100 % 100}.{v % 100}" if v >= 10000 else f"{v // 100}.{v // 10 % 10}.{v % 10}")
elif name.startswith("jemalloc"):
    text, size = ctypes.c_char_p(), ctypes.c_size_t(8)
    assert lib.mallctl(b"version", ctypes.byref(text), ctypes.byref(size), None, 0) == 0
    print(text.value.decode().split("-")[0])
"""


@dataclass(frozen=True)
class Malloc:
    """A malloc to measure under: preloaded from `path`, or the C library's own when `path` is empty."""

    name: str
    path: str = ""
    version: str = ""


def library_files() -> list[str]:
    text = process.output(["ldconfig", "-p"]) or process.output(["/sbin/ldconfig", "-p"]) or ""
    files = [line.rsplit("=> ", 1)[1].strip() for line in text.splitlines() if "=> " in line]
    for directory in (BUILT, *LIBRARY_DIRECTORIES):
        with contextlib.suppress(OSError):
            files += [str(path) for path in Path(directory).iterdir()]
    return files


def version_of(name: str, path: str) -> str:
    environment = {**os.environ, "LD_PRELOAD": path}
    said = process.output([sys.executable, "-c", VERSION_PROGRAM, name], environment=environment)
    if said and said.strip():
        return said.strip()
    # Better the number in the file's name than none.
    numbers = re.search(r"\.so\.([\d.]+(?:\+\w+)?)$", os.path.realpath(path))
    return numbers.group(1) if numbers else "unknown"


def _how_to_get(name: str) -> str:
    if name in PACKAGES:
        return f"{name} is not installed (Debian: {PACKAGES[name]})"
    if where.in_checkout():
        why = "tools/build_mallocs builds it, with cargo"
        if not shutil.which("cargo"):
            why = "cargo is missing (Debian: cargo), with which tools/build_mallocs gets it"
        elif (BUILT / "stamp").exists():
            why = f"tools/build_mallocs could not: {BUILT / 'build.log'} says why"
        return f"{name} is not built: {why}"
    return f"{name} is not there (name its library: --malloc {name}=PATH)"


def pinned() -> dict[str, str]:
    """The crates of whose sources tools/build_mallocs builds, and their versions."""
    manifest = where.PACKAGE.parent / "tools" / "mallocs.toml"
    return tomllib.loads(manifest.read_text())["dependencies"] if where.in_checkout() else {}


def find(files: Iterable[str] | None = None) -> tuple[list[Malloc], dict[str, str]]:
    """The mallocs installed, glibc first, and for each one missing a sentence that says how to get it."""
    files = library_files() if files is None else list(files)
    found = [Malloc(DEFAULT, version=platform.libc_ver()[1] or "unknown")]
    missing: dict[str, str] = {}
    for name, patterns in LIBRARY_PATTERNS.items():
        paths = [f for pattern in patterns for f in files if re.fullmatch(pattern, os.path.basename(f))]
        paths = [p for p in paths if os.path.exists(p)]
        if paths:
            found.append(Malloc(name, paths[0], version_of(name, paths[0])))
        else:
            missing[name] = _how_to_get(name)
    return found, missing


def ours(benchmark: Path) -> list[Malloc]:
    """The library that was built with this executable of the benchmark; empty if it was not."""
    library = benchmark.parent.parent / "libpooled-new.so"
    return [Malloc(OURS, str(library))] if library.is_file() else []
