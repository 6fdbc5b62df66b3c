# SPDX-License-Identifier: BSL-1.0
"""Words are found whole, whatever joins them to others."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import lint_vocabulary as lint  # noqa: E402


class VocabularyTest(unittest.TestCase):
    def test_a_word_is_found_in_any_case_and_in_names(self):
        self.assertEqual(lint.words_in("Raid; raid_for(m_raid, k_raid_1) RAID"), {"raid": 5})

    def test_a_phrase_is_found_over_a_line_end_and_in_names(self):
        self.assertEqual(
            lint.words_in("came_home\n// blocks come\n// home, and came home"), {"came home": 2, "come home": 1}
        )

    def test_files_of_the_named_places_are_searched_and_their_names(self):
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            for name in ("include/pooled/magazine.hpp", "test/unit/good.cpp", "bench/raid.cpp"):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("int carrier;\n" if "include" in name else "raid\n" if "bench" in name else "")
            (root / "README.md").write_text("no such word\n")
            self.assertEqual(lint.check(root), {"include/pooled/magazine.hpp": {"carrier": 1, "magazine": 1}})
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                self.assertEqual(lint.main(["--root", directory]), 1)
            self.assertIn("include/pooled/magazine.hpp: carrier 1, magazine 1", output.getvalue())


if __name__ == "__main__":
    unittest.main()
