# SPDX-License-Identifier: BSL-1.0
"""Each picture with a source was drawn from that source, and a page shows it with a text for who does not see it."""

import re
import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import draw_pictures  # noqa: E402

ROOT = draw_pictures.IMAGES.parent.parent
SOURCES = sorted(draw_pictures.IMAGES.glob("*.dot"))


class PicturesTest(unittest.TestCase):
    def test_each_picture_is_drawn_from_its_source_as_it_is_now(self):
        self.assertNotEqual(SOURCES, [])
        for source in SOURCES:
            drawn = source.with_suffix(".svg").read_text(encoding="utf-8")
            self.assertTrue(drawn.startswith(draw_pictures.mark_of(source)), f"{source.name}: run draw_pictures.py")
            ElementTree.fromstring(drawn)

    def test_each_picture_is_shown_and_described(self):
        pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        shown = [
            each for page in pages for each in re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        ]
        described = {Path(file).name: text for text, file in shown}
        for source in SOURCES:
            self.assertGreater(len(described.get(f"{source.stem}.svg", "")), 40, source.stem)


if __name__ == "__main__":
    unittest.main()
