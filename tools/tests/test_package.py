# SPDX-License-Identifier: BSL-1.0
"""The release archive holds the tracked files and nothing else, is the same each time, and is the one README names."""

import io
import re
import tarfile
import tempfile
import unittest
from pathlib import Path

import package

ROOT = package.ROOT
# Where a reader could be sent to and find nothing: no host has this project yet.
ADDRESS = re.compile(r"(?:https?|git|ssh)://[^\s)>\"'`]*pooled|\.invalid\b|<this repository>|<a release")


class PackageTest(unittest.TestCase):
    def setUp(self):
        self.folder = f"pooled-{package.version(ROOT / 'include')}"
        self.archive = package.archive_of(ROOT, self.folder)

    def test_a_copy_of_the_archive_gives_the_same_archive(self):
        with tempfile.TemporaryDirectory() as name, tarfile.open(fileobj=io.BytesIO(self.archive)) as archive:
            archive.extractall(name, filter="data")
            copy = Path(name) / self.folder
            (copy / "build").mkdir()
            (copy / "build/left.o").write_text("by a build")
            self.assertEqual(package.archive_of(copy, self.folder), self.archive)

    def test_it_has_what_a_user_builds_and_tests_with(self):
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as archive:
            names = set(archive.getnames())
            runnable = {each.name for each in archive if each.mode & 0o100}
        for name in [
            "CMakeLists.txt",
            "LICENSE",
            "Makefile",
            "include/pooled/pooled.hpp",
            "src/pooled.cpp",
            "tools/setup",
        ]:
            self.assertIn(f"{self.folder}/{name}", names)
        self.assertIn(f"{self.folder}/tools/setup", runnable)
        self.assertEqual({name for name in names if not name.startswith(f"{self.folder}/")}, set())

    def test_readme_names_this_version_s_archive(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"pooled-\d[\d.]*\d(?=\.tar\.gz)", readme)), {self.folder})

    def test_no_page_sends_the_reader_to_an_address_that_does_not_exist(self):
        pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
        for page in [*pages, *(ROOT / "tools/packaging").rglob("*.*"), *(ROOT / "examples").rglob("*.cpp")]:
            self.assertEqual(ADDRESS.findall(page.read_text(encoding="utf-8")), [], page)
