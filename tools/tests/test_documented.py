# SPDX-License-Identifier: BSL-1.0
"""test/documented.md: its tests exist, and each test that was written for a sentence is in it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "test/documented.md").read_text(encoding="utf-8")

TEST = re.compile(r"^(?:TYPED_TEST|TEST|TEST_F)\((\w+), (\w+)\)", re.MULTILINE)
# Files whose every test is of a sentence of an original.
OF_SENTENCES = [
    "behaviour/migration_foonathan.cpp",
    "../compat/test/unit/boost_pool/boost_pool_documented.cpp",
]


def named_tests_in(*files: Path) -> set[str]:
    return {f"{suite}.{name}" for file in files for suite, name in TEST.findall(file.read_text(encoding="utf-8"))}


def rows() -> list[tuple[str, list[str]]]:
    """What is documented, and the names of the tests."""
    found = []
    for line in PAGE.partition("\n## ")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] != "documented":
            found.append((cells[0], re.findall(r"`([^`]+)`", cells[-1])))
    return found


def test_each_row_names_tests_that_exist():
    exist = named_tests_in(*(ROOT / "test").rglob("*.cpp"), *(ROOT / "compat/test").rglob("*.cpp"))
    for documented, tests in rows():
        assert tests, f"{documented}: no test"
        assert set(tests) - exist == set(), documented


def test_each_test_of_a_sentence_is_in_a_row():
    shown = {test for _, tests in rows() for test in tests}
    for file in OF_SENTENCES:
        assert named_tests_in(ROOT / "test" / file) - shown == set(), file
