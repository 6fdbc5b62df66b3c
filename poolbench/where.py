# SPDX-License-Identifier: BSL-1.0
"""Where things are. In a checkout the sources lie beside this package, and what is built and measured stays in it. A
wheel has the sources inside; then builds go to the user's cache directory, and results to the user's data directory."""

import hashlib
import os
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
MARK = Path("bench") / "CMakeLists.txt"
COMMIT = "COMMIT"  # a wheel's file: which sources are in it


def _user(variable: str, otherwise: str) -> Path:
    """By the XDG base directory specification, which ignores relative paths."""
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else Path.home() / otherwise) / "poolbench"


def in_checkout() -> bool:
    return (PACKAGE.parent / MARK).is_file()


def sources() -> Path:
    """What holds include/, bench/ and the CMake project."""
    return PACKAGE.parent if in_checkout() else PACKAGE / "sources"


def builds() -> Path:
    """CMake ties a build directory to its sources: two installations have one each."""
    if in_checkout():
        return PACKAGE.parent / "build"
    return _user("XDG_CACHE_HOME", ".cache") / hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:8]


def results() -> Path:
    return PACKAGE.parent / "bench" / "results" if in_checkout() else _user("XDG_DATA_HOME", ".local/share") / "results"


def of_sources() -> str:
    """The commit, with "+changes" when tracked files differ from it; of a wheel, the one that it was made of."""
    words = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        if not in_checkout():
            return (sources() / COMMIT).read_text().strip()
        return subprocess.run(words, cwd=sources(), capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
