# SPDX-License-Identifier: BSL-1.0
"""The site builds without a warning, needs no server, and has a page for each public header."""

import importlib.util
import re
import shutil
import subprocess
import sys

import make_docs
import pytest
import reference


def test_links_out_of_the_site_become_text_and_headers_their_reference():
    source = make_docs.ROOT / "docs/teardown.md"
    page = make_docs.STAGE / "teardown.md"
    for text, expected in {
        "[a](concepts.md#x)": "[a](concepts.md#x)",
        "[a](../bench/CMakeLists.txt)": "a",
        "[bench/x.cpp](../bench/x.cpp)": "`bench/x.cpp`",
        "[a](../include/pooled/pool.hpp)": "[a](headers/pool.md)",
        "[a](../README.md)": "[a](index.md)",
        "[a](#here) [b](https://example.org)": "[a](#here) [b](https://example.org)",
    }.items():
        assert make_docs.redirect(text, source, page) == expected


def test_each_page_of_the_documentation_is_in_the_navigation():
    docs = make_docs.ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert pages - set(re.findall(r"[\w./-]+\.md", make_docs.navigation())) == set()


# What a newcomer asks -> the heading that answers.
ASKED = {
    "bound": "faq.html#bound-",
    "sizing": "faq.html#sizing-",
    "sleeping thread": "faq.html#sleeping-thread-",
    "fork": "faq.html#fork-",
    "plugin": "faq.html#plugin-",
    "cost of an object": "faq.html#cost-of-an-object-",
    "double free": "faq.html#double-free-",
}


def first_hits(site, question: str, browser) -> list[str]:
    """Of the first page that is found: what of it."""
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type(question)
    links = page.locator("li.md-search-result__item >> nth=0").locator("a.md-search-result__link")
    links.first.wait_for()
    found = [links.nth(i).get_attribute("href") for i in range(links.count())]
    page.close()
    return [re.sub(r"\?[^#]*", "", each.rsplit("/", 1)[1]) for each in found]


@pytest.mark.skipif(not shutil.which("doxygen"), reason="doxygen is missing")
def test_each_public_name_is_in_the_reference_with_an_example_and_nothing_else_is():
    entries = [entry for page in reference.pages() for entry in page["names"].items()]
    headers = reference.Headers(sorted({entry["header"] for _, entry in entries}))
    assert headers.public_names() == reference.listed_names()
    for name, entry in entries:
        assert reference.example_of(name).strip(), name
        assert entry["header"] in make_docs.HEADERS
        for fact in ("text", *reference.FACTS):
            assert entry[fact].endswith("."), f"{name}: {fact}"
        shown = reference.section_of(name, entry, headers)
        assert re.findall(r"\bPOOLED_(?!VERSION)\w+|\bdetail\b|\b(?:Other)?Counting\b", shown) == [], name
        code = "".join(re.findall(r"^```cpp\n(.*?)^```", shown, re.MULTILINE | re.DOTALL))
        signatures = re.findall(r"^(?:template.*\n(?: +requires.*\n)?)?\S.*(?:\n +requires.*)?;$", code, re.MULTILINE)
        assert len(signatures) == len(set(signatures)), name


def test_the_module_exports_each_public_name():
    text = (make_docs.ROOT / "modules/pooled.cppm").read_text(encoding="utf-8")
    assert set(re.findall(r"^using pooled::(\w+);", text, re.MULTILINE)) == reference.listed_names()


def test_names_of_code_in_comments_are_marked():
    shown = reference.as_markdown("Throws std::bad_alloc, see max_bytes, `x<y>`, stats(); a <b>.")
    assert shown == "Throws `std::bad_alloc`, see `max_bytes`, `x<y>`, `stats()`; a &lt;b>."


@pytest.mark.skipif(not shutil.which("doxygen"), reason="doxygen is missing")
@pytest.mark.skipif(not importlib.util.find_spec("material"), reason="Material for MkDocs is not in .venv")
def test_the_site_builds_in_strict_mode_without_a_server_and_its_search_answers_first(tmp_path):
    tool = make_docs.ROOT / "tools/make_docs.py"
    built = subprocess.run([sys.executable, tool, tmp_path], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    index = (tmp_path / "search/search_index.js").read_text(encoding="utf-8")
    assert '"boost":0.2}' in index  # a header is found after guide and reference
    chromium = shutil.which("chromium")
    if chromium is None or not importlib.util.find_spec("playwright"):
        return
    from playwright.sync_api import sync_playwright

    # The search answers a newcomer's questions first.
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--allow-file-access-from-files"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for question, answer in ASKED.items():
            found = first_hits(tmp_path, question, browser)
            assert any(each.startswith(answer) for each in found[:2]), (question, found)
        browser.close()
