# SPDX-License-Identifier: BSL-1.0
"""The release archive holds the tracked files and nothing else, is the same each time, and docs/install.md names it."""

import io
import re
import tarfile

import package
import pytest

ROOT = package.ROOT
# Where a reader could be sent to and find nothing: no host has this project yet.
ADDRESS = re.compile(r"(?:https?|git|ssh)://[^\s)>\"'`]*pooled|\.invalid\b|<this repository>|<a release")


FOLDER = f"pooled-{package.version(ROOT / 'include')}"


@pytest.fixture(scope="module")
def archive():
    return package.archive_of(ROOT, FOLDER)


def test_a_copy_of_the_archive_gives_the_same_archive(archive, tmp_path):
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(tmp_path, filter="data")
    (tmp_path / FOLDER / "build").mkdir()
    (tmp_path / FOLDER / "build/left.o").write_text("by a build")
    assert package.archive_of(tmp_path / FOLDER, FOLDER) == archive


def test_it_has_what_a_user_builds_and_tests_with(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        modes = {each.name: each.mode for each in packed}
    for name in ("CMakeLists.txt", "LICENSE", "Makefile", "include/pooled/pooled.hpp", "src/pooled.cpp", "tools/setup"):
        assert f"{FOLDER}/{name}" in modes
    assert modes[f"{FOLDER}/tools/setup"] & 0o100
    assert [name for name in modes if not name.startswith(f"{FOLDER}/")] == []


def test_the_page_on_installation_names_this_version_s_archive():
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"pooled-\d[\d.]*\d(?=\.tar\.gz)", page)) == {FOLDER}


def test_no_page_sends_the_reader_to_an_address_that_does_not_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in [*pages, *(ROOT / "tools/packaging").rglob("*.*"), *(ROOT / "examples").rglob("*.cpp")]:
        assert ADDRESS.findall(page.read_text(encoding="utf-8")) == [], page
