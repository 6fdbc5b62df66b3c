# SPDX-License-Identifier: BSL-1.0
"""The site builds without a warning, needs no server, and has a page for each public header."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import make_docs
import reference


class MakeDocsTest(unittest.TestCase):
    def test_links_out_of_the_site_become_text_and_headers_their_reference(self):
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
            self.assertEqual(make_docs.redirect(text, source, page), expected)

    def test_each_page_of_the_documentation_is_in_the_navigation(self):
        docs = make_docs.ROOT / "docs"
        pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
        self.assertEqual(pages - set(re.findall(r"[\w./-]+\.md", make_docs.navigation())), set())

    def test_public_headers_have_a_page(self):
        umbrella = (make_docs.ROOT / "include/pooled/pooled.hpp").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'#include "pooled/(.*)"', umbrella)) - set(make_docs.HEADERS), set())

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is missing")
    def test_each_public_name_is_in_the_reference_with_an_example_and_nothing_else_is(self):
        entries = [entry for page in reference.pages() for entry in page["names"].items()]
        headers = reference.Headers(sorted({entry["header"] for _, entry in entries}))
        listed = {name for key, entry in entries for name in entry.get("names", [key])}
        self.assertEqual(headers.public_names(), listed)
        for name, entry in entries:
            self.assertTrue(reference.example_of(name).strip(), name)
            self.assertIn(entry["header"], make_docs.HEADERS)
            for fact in ("text", *reference.FACTS):
                self.assertTrue(entry[fact].endswith("."), f"{name}: {fact}")
            shown = reference.section_of(name, entry, headers)
            self.assertEqual(re.findall(r"\bPOOLED_(?!VERSION)\w+|\bdetail\b|\b(?:Other)?Counting\b", shown), [], name)
            code = "".join(re.findall(r"^```cpp\n(.*?)^```", shown, re.MULTILINE | re.DOTALL))
            signatures = re.findall(
                r"^(?:template.*\n(?: +requires.*\n)?)?\S.*(?:\n +requires.*)?;$", code, re.MULTILINE
            )
            self.assertEqual(len(signatures), len(set(signatures)), name)

    def test_names_of_code_in_comments_are_marked(self):
        shown = reference.as_markdown("Throws std::bad_alloc, see max_bytes, `x<y>`, stats(); a <b>.")
        self.assertEqual(shown, "Throws `std::bad_alloc`, see `max_bytes`, `x<y>`, `stats()`; a &lt;b>.")

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is missing")
    @unittest.skipUnless(importlib.util.find_spec("material"), "Material for MkDocs is not in .venv")
    def test_the_site_builds_in_strict_mode_and_loads_nothing_from_a_server(self):
        with tempfile.TemporaryDirectory() as site:
            tool = make_docs.ROOT / "tools/make_docs.py"
            built = subprocess.run([sys.executable, tool, site], capture_output=True, text=True, check=False)
            self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
            index = (Path(site) / "search/search_index.js").read_text(encoding="utf-8")
            self.assertIn('"boost":0.2}', index)  # a header is found after guide and reference
