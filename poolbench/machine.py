# SPDX-License-Identifier: BSL-1.0
"""What this machine is, and which mallocs it has."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

LIBRARY_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/local/lib", "/lib/x86_64-linux-gnu", "/lib64", "/lib",
)  # fmt: skip

# Name of the malloc, then patterns of its library, the preferred one first; the debug forms are not wanted.
LIBRARY_PATTERNS = {
    "tcmalloc": (r"libtcmalloc_minimal\.so\.\d+", r"libtcmalloc\.so\.\d+"),
    "jemalloc": (r"libjemalloc\.so\.\d+",),
    "mimalloc": (r"libmimalloc\.so\.\d+(\.\d+)?",),
}
PACKAGES = {"tcmalloc": "libtcmalloc-minimal4", "jemalloc": "libjemalloc2", "mimalloc": "libmimalloc2.0"}

# Asked of the library itself, in a process that has it preloaded.
VERSION_PROGRAM = """
import ctypes, sys
lib, name = ctypes.CDLL(None), sys.argv[1]
if name == "tcmalloc":
    lib.tc_version.restype = ctypes.c_char_p
    print(lib.tc_version(None, None, None).decode())
elif name == "mimalloc":
    v = lib.mi_version()
    print(f"{v // 100}.{v // 10 % 10}.{v % 10}")
elif name == "jemalloc":
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


def _from_ldconfig() -> list[str]:
    for program in ("ldconfig", "/sbin/ldconfig"):
        try:
            text = subprocess.run([program, "-p"], capture_output=True, text=True, check=False).stdout
        except OSError:
            continue
        return [line.rsplit("=> ", 1)[1].strip() for line in text.splitlines() if "=> " in line]
    return []


def _library_files() -> list[str]:
    files = _from_ldconfig()
    for directory in LIBRARY_DIRECTORIES:
        try:
            files += [str(p) for p in Path(directory).iterdir()]
        except OSError:
            continue
    return files


def _version(name: str, path: str) -> str:
    environment = {**os.environ, "LD_PRELOAD": path}
    try:
        done = subprocess.run([sys.executable, "-c", VERSION_PROGRAM, name], env=environment, timeout=20,
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        pass
    # Better the number in the file's name than none.
    numbers = re.search(r"\.so\.([\d.]+)$", os.path.realpath(path))
    return numbers.group(1) if numbers else "unknown"


def find_mallocs(files: list[str] | None = None) -> tuple[list[Malloc], dict[str, str]]:
    """The mallocs installed, glibc first, and for each one missing a sentence that says how to get it."""
    files = _library_files() if files is None else files
    found = [Malloc("glibc", "", platform.libc_ver()[1] or "unknown")]
    missing: dict[str, str] = {}
    for name, patterns in LIBRARY_PATTERNS.items():
        paths = [f for pattern in patterns for f in files if re.fullmatch(pattern, os.path.basename(f))]
        paths = [p for p in paths if os.path.exists(p)]
        if paths:
            found.append(Malloc(name, paths[0], _version(name, paths[0])))
        else:
            missing[name] = f"{name} is not installed (Debian: {PACKAGES[name]})"
    return found, missing


def _first_line(path: str, key: str) -> str:
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    except (OSError, IndexError):
        pass
    return "unknown"


def commit(root: Path) -> str:
    """The commit measured, with "+changes" when the tracked files differ from it."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=root,
                                 capture_output=True, text=True, check=True)  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+changes" if changed.stdout.strip() else "")


def _processor_times() -> tuple[int, int]:
    """Clock ticks of all cores since the start, and those of them that were idle (or waited for a disk)."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]


def busy_share(seconds: float = 0.5) -> float:
    """The share of all processor time that others use now. The load average would still tell of our own build."""
    try:
        total, idle = _processor_times()
        time.sleep(seconds)
        later, idle_later = _processor_times()
    except (OSError, ValueError, IndexError):
        return 0.0
    return 1 - (idle_later - idle) / (later - total) if later > total else 0.0


def busy_warning(share: float) -> str:
    if share < 0.1:
        return ""
    return f"the machine is busy with other work ({share:.0%} of its processors): times measured now do not count"


def describe() -> dict[str, object]:
    """Processor, cores, memory, kernel: what a reader needs to compare figures with."""
    return {
        "cpu": _first_line("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _first_line("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "hypervisor": "yes" if "hypervisor" in _first_line("/proc/cpuinfo", "flags") else "no",
    }
