# SPDX-License-Identifier: BSL-1.0
"""Which sources were measured."""

import subprocess
from pathlib import Path

from poolbench import where


def commit(root: Path) -> str:
    """The commit, with "+changes" when the tracked files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def of_sources() -> str:
    """That of the checkout, or the one that the wheel was made of."""
    if where.in_checkout():
        return commit(where.sources())
    try:
        return (where.sources() / where.COMMIT).read_text().strip()
    except OSError:
        return "unknown"
