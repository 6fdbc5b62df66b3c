# SPDX-License-Identifier: BSL-1.0
"""The single header names its version first, and its licence once."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import single_header  # noqa: E402


class SingleHeaderTest(unittest.TestCase):
    def test_the_version_is_that_of_the_header(self):
        with tempfile.TemporaryDirectory() as directory:
            header = Path(directory) / "pooled/version.hpp"
            header.parent.mkdir()
            header.write_text(
                "".join(
                    f"#define POOLED_VERSION_{p} {n}\n"
                    for p, n in zip(("MAJOR", "MINOR", "PATCH"), (3, 1, 4), strict=True)
                )
            )
            self.assertEqual(single_header.version(Path(directory)), "3.1.4")

    def test_the_first_line_has_the_version_and_the_licence_follows_once(self):
        text = single_header.finish(
            f"{single_header.LICENCE}#pragma once\n\n{single_header.LICENCE}\nint a;\n", "1.2.3"
        )
        lines = text.splitlines()
        self.assertTrue(lines[0].startswith("// pooled 1.2.3: "))
        self.assertEqual(lines[1], single_header.LICENCE.strip())
        self.assertEqual(text.count(single_header.LICENCE), 1)
        self.assertIn("#pragma once\n", text)
        self.assertIn("int a;\n", text)


if __name__ == "__main__":
    unittest.main()
