# SPDX-License-Identifier: BSL-1.0
"""Which sources were measured."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit(root: Path) -> str:
    """The commit, with "+changes" when the tracked files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
