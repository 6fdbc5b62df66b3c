# SPDX-License-Identifier: BSL-1.0
"""test/documented.md: its tests exist, our members are in it, and so is each test that was written for a sentence."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "test/documented.md").read_text(encoding="utf-8")
COMPAT = ROOT / "include/pooled/compat"

TEST = re.compile(r"^(?:TYPED_TEST|TEST|TEST_F)\((\w+), (\w+)\)", re.MULTILINE)
# Files whose every test is of a sentence of an original.
OF_SENTENCES = [
    "behaviour/migration_bde.cpp",
    "behaviour/migration_foonathan.cpp",
    "unit/compat/boost_pool_documented.cpp",
]
# Classes of namespace detail whose members are those of the public classes that derive from them.
BASES = {"pool_base", "singleton_allocator"}
CLASS = re.compile(r"^(?:class|struct) (?:POOLED_EXPORT )?(\w+)[^;]*?\{$(.*?)^\};", re.MULTILINE | re.DOTALL)
# Its return type, then its name, which may be in parentheses against macros of that name.
FUNCTION = re.compile(r"^ {4}(?=\w|\[)[\w:<>*&\[\] ]*[ *&(]\(?(\w+)\)?\((?!.*= delete)", re.MULTILINE)


def named_tests_in(*files: Path) -> set[str]:
    return {f"{suite}.{name}" for file in files for suite, name in TEST.findall(file.read_text(encoding="utf-8"))}


def sections(page: str) -> dict[str, str]:
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return {part.partition("\n")[0]: part for part in parts}


def rows(section: str) -> list[tuple[str, list[str]]]:
    """What is documented, and the names of the tests."""
    found = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] != "documented":
            found.append((cells[0], re.findall(r"`([^`]+)`", cells[-1])))
    return found


def public_members(header: str) -> set[str]:
    """The functions that the classes of a header have in public."""
    names = set()
    hidden = re.search(r"^namespace detail \{.*?^\}  // namespace detail$", header, re.MULTILINE | re.DOTALL)
    for found in CLASS.finditer(header):
        name, body = found.groups()
        if hidden and hidden.start() < found.start() < hidden.end() and name not in BASES:
            continue
        front, *parts = re.split(r"^(public|protected|private):", body, flags=re.MULTILINE)
        parts = [front if found[0].startswith("struct") else ""] + [
            part for access, part in zip(parts[::2], parts[1::2], strict=True) if access == "public"
        ]
        functions = set(FUNCTION.findall("".join(parts)))
        names |= functions - {name, "static_assert", "operator"}
    return names


class DocumentedTest(unittest.TestCase):
    def test_each_row_names_tests_that_exist(self):
        exist = named_tests_in(*(ROOT / "test").rglob("*.cpp"))
        for name, section in sections(PAGE).items():
            for documented, tests in rows(section):
                self.assertTrue(tests, f"{name}: {documented}: no test")
                self.assertEqual(set(tests) - exist, set(), f"{name}: {documented}")

    def test_each_public_member_of_our_headers_has_a_row(self):
        for name, section in sections(PAGE).items():
            named = set(re.findall(r"\w+", " ".join(documented for documented, _ in rows(section))))
            front = section.partition("| documented")[0]
            headers = re.findall(r"`([\w/]+\.hpp)`", front.partition("Header:")[2])
            for header in headers:
                members = public_members((COMPAT / header).read_text(encoding="utf-8"))
                self.assertTrue(members, header)
                self.assertEqual(members - named, set(), f"{name}: {header}")

    def test_each_test_of_a_sentence_is_in_a_row(self):
        shown = {test for section in sections(PAGE).values() for _, tests in rows(section) for test in tests}
        for file in OF_SENTENCES:
            self.assertEqual(named_tests_in(ROOT / "test" / file) - shown, set(), file)
