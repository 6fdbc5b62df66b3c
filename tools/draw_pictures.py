#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Draws the pictures of the documentation: docs/images/*.dot become SVG files by Graphviz.

usage: draw_pictures.py

Both are committed. A picture follows the reader's light or dark setting. It names the SHA-256 of its source, so that a
test notices one that was not drawn anew.
"""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

IMAGES = Path(__file__).resolve().parent.parent / "docs/images"
# The colours of the sources -> those of a dark page.
DARK = {"white": "#0d1117", "#ffffff": "#0d1117", "#e0f2f1": "#00382f", "#eceff1": "#263238", "#ffebee": "#4a1414"}
DARK_STYLE = "".join(f'[fill="{light}"]{{fill:{dark}}}' for light, dark in DARK.items())
DARK_STYLE += 'text{fill:#e6edf3}[stroke="#455a64"]{stroke:#90a4ae}[stroke="#00695c"]{stroke:#4db6ac}'
DARK_STYLE += (
    '[stroke="#b71c1c"]{stroke:#ef9a9a}polygon[fill="#455a64"]{fill:#90a4ae}[stroke="transparent"]{stroke:none}'
)
STYLE = f"<style>@media(prefers-color-scheme:dark){{{DARK_STYLE}}}</style>"


def mark_of(source: Path) -> str:
    return f"<!-- drawn from {source.name}, SHA-256 {hashlib.sha256(source.read_bytes()).hexdigest()} -->"


def main() -> int:
    for source in sorted(IMAGES.glob("*.dot")):
        drawn = subprocess.run(["dot", "-Tsvg", source], capture_output=True, text=True, check=True).stdout
        drawn = drawn[drawn.index("<svg") :]
        # Graphviz says its version and the names of nodes, which nobody reads.
        drawn = re.sub(r"<!--.*?-->\n|<title>.*?</title>\n", "", drawn, flags=re.DOTALL)
        drawn = drawn.replace(">\n", f">\n{STYLE}\n", 1)
        source.with_suffix(".svg").write_text(f"{mark_of(source)}\n{drawn}", encoding="utf-8")
        print(source.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
