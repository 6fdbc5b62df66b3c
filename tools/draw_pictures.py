#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Draws the pictures of the documentation: docs/images/*.dot become SVG files by Graphviz.

usage: draw_pictures.py

Both are committed. An SVG file names the SHA-256 of its source, so that a test notices one that was not drawn anew.
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"


def mark_of(source: Path) -> str:
    return f"<!-- drawn from {source.name}, SHA-256 {hashlib.sha256(source.read_bytes()).hexdigest()} -->"


def main() -> int:
    for source in sorted(IMAGES.glob("*.dot")):
        drawn = subprocess.run(["dot", "-Tsvg", source], capture_output=True, text=True, check=True).stdout
        drawn = drawn[drawn.index("<svg") :]
        # Graphviz says its version and the names of nodes, which nobody reads.
        drawn = re.sub(r"<!--.*?-->\n|<title>.*?</title>\n", "", drawn, flags=re.DOTALL)
        source.with_suffix(".svg").write_text(f"{mark_of(source)}\n{drawn}", encoding="utf-8")
        print(source.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
