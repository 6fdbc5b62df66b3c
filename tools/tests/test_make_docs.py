# SPDX-License-Identifier: BSL-1.0
"""The site builds without a warning, needs no server, and has a page for each public header."""

import importlib.util
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import make_docs  # noqa: E402


class MakeDocsTest(unittest.TestCase):
    def test_links_out_of_the_site_become_text_and_headers_their_reference(self):
        source = make_docs.ROOT / "docs/teardown.md"
        page = make_docs.STAGE / "teardown.md"
        for text, expected in {
            "[a](concepts.md#x)": "[a](concepts.md#x)",
            "[a](../bench/CMakeLists.txt)": "a",
            "[a](../include/pooled/pool/pool.hpp)": "[a](reference/pool-pool.md)",
            "[a](../README.md)": "[a](index.md)",
            "[a](#here) [b](https://example.org)": "[a](#here) [b](https://example.org)",
        }.items():
            self.assertEqual(make_docs.redirect(text, source, page), expected)

    def test_public_headers_have_a_page(self):
        umbrella = (make_docs.ROOT / "include/pooled/pooled.hpp").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'#include "pooled/(.*)"', umbrella)) - set(make_docs.HEADERS), set())

    @unittest.skipUnless(importlib.util.find_spec("material"), "Material for MkDocs is not in .venv")
    def test_the_site_builds_in_strict_mode_and_loads_nothing_from_a_server(self):
        with tempfile.TemporaryDirectory() as site:
            tool = make_docs.ROOT / "tools/make_docs.py"
            built = subprocess.run([sys.executable, tool, site], capture_output=True, text=True, check=False)
            self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
            self.assertTrue((Path(site) / "search/search_index.js").is_file())


if __name__ == "__main__":
    unittest.main()
