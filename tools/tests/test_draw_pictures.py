# SPDX-License-Identifier: BSL-1.0
"""Each picture was drawn from its source, and a page shows it with a text for those who do not see it."""

import re
from pathlib import Path
from xml.etree import ElementTree

import draw_pictures
import draw_results

ROOT = draw_pictures.IMAGES.parent.parent
SOURCES = sorted(draw_pictures.IMAGES.glob("*.dot"))


def test_each_picture_is_drawn_from_its_source_as_it_is_now():
    assert SOURCES != []
    for source in SOURCES:
        drawn = source.with_suffix(".svg").read_text(encoding="utf-8")
        assert drawn.startswith(draw_pictures.mark_of(source)), f"{source.name}: run draw_pictures.py"
        ElementTree.fromstring(drawn)
        assert "prefers-color-scheme:dark" in drawn


def test_each_drawing_of_results_is_that_of_the_results_that_readme_names():
    file = draw_results.results_file()
    for name in draw_results.DRAWINGS:
        drawn = (draw_pictures.IMAGES / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn == draw_results.DRAWINGS[name](file).alone(), f"{name}: run draw_results.py"
        ElementTree.fromstring(drawn)


def test_tables_are_those_of_the_results_that_readme_names():
    for page in draw_results.ROWS:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert text == draw_results.written(page, draw_results.results_file()), "run draw_results.py"


def test_each_picture_is_shown_and_described():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = [
        each for page in pages for each in re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    ]
    described = {Path(file).name: text for text, file in shown}
    for name in [*(source.stem for source in SOURCES), *draw_results.DRAWINGS]:
        assert len(described.get(f"{name}.svg", "")) > 40, name
