# SPDX-License-Identifier: BSL-1.0
"""The cookbook shows code that is compiled, figures that were measured, and links that lead somewhere."""

import json
import re
import textwrap

import measure_examples

ROOT = measure_examples.ROOT
PAGES = sorted(measure_examples.PAGES.glob("*.md"))
RESULTS = json.loads((measure_examples.PAGES / "results.json").read_text(encoding="utf-8"))


def test_each_page_is_of_an_example_and_each_measured_example_has_a_page():
    names = {page.stem for page in PAGES} - {"README"}
    for name in names:
        assert (ROOT / f"examples/{name}.cpp").is_file(), name
    assert {name.split()[0] for name in measure_examples.EXAMPLES} <= names


def test_code_blocks_are_parts_of_the_example():
    for page in PAGES:
        blocks = re.findall(r"```cpp\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        if page.stem == "README":
            assert blocks == []
            continue
        assert blocks != [], page.name
        lines = (ROOT / f"examples/{page.stem}.cpp").read_text(encoding="utf-8").splitlines()
        for block in blocks:
            count = len(block.splitlines())
            parts = (textwrap.dedent("\n".join(lines[i : i + count])) for i in range(len(lines)))
            assert block.rstrip("\n") in parts, page.name


def test_figures_are_those_of_the_results_file():
    for page in [*PAGES, measure_examples.HANDLE_PAGE]:
        assert page.read_text(encoding="utf-8") == measure_examples.written(page, RESULTS), page.name


def test_links_between_files_lead_to_files():
    for page in [*PAGES, ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
