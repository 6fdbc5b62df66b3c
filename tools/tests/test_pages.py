# SPDX-License-Identifier: BSL-1.0
"""Each code block of README.md and docs/ is compiled and run: it is part of a program that the tests build.

A block of a page of the cookbook is a part of the example of the same name (test_cookbook.py). The lines of any other
are, in their order, in a program of examples/docs/, behind the line `// page: <the page>`. A block of another library's
code, which may not be installed, has <!-- another library --> in front of it. Blocks of sh and console are commands of
this checkout.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "compat").rglob("*.md"))]
PAGES = [page for page in PAGES if page.parent.name != "cookbook"]
BLOCK = re.compile(r"(<!-- another library -->\n)?^```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"cpp", "cmake", "console", "sh", "text", ""}


def lines_of(text: str) -> list[str]:
    """Without indentation, alignment, empty lines and the marks of comments in front of directives."""
    spaced = (" ".join(line.split()).removeprefix("// #") for line in text.splitlines())
    return [line.removeprefix("#") for line in spaced if line]


def parts() -> dict[str, list[list[str]]]:
    """Page -> for each program that shows it, the lines of its part and of the program's front with the includes."""
    found = {}
    for program in sorted((ROOT / "examples/docs").glob("*.cpp")):
        front, *rest = re.split(r"^// (?=page: |end of pages)", program.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for part in rest:
            name, _, text = part.partition("\n")
            found.setdefault(name.removeprefix("page: "), []).append(lines_of(front + text))
    return found


def is_in_order(lines: list[str], program: list[str]) -> bool:
    rest = iter(program)
    return all(line in rest for line in lines)


def test_code_blocks_are_in_a_program_that_the_tests_run():
    programs = parts()
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            other, language, text = match.groups()
            assert language in LANGUAGES, name
            if language != "cpp" or other:
                continue
            found = any(is_in_order(lines_of(text), part) for part in programs.get(name, []))
            assert found, f"{name}: no program of examples/docs/ has the lines of\n{text}"


def test_each_part_of_a_program_is_of_a_page():
    names = {page.relative_to(ROOT).as_posix() for page in PAGES}
    assert set(parts()) - {"end of pages"} <= names


def test_the_page_of_the_module_shows_the_build_of_the_consumer_that_is_tested():
    page = (ROOT / "docs/modules.md").read_text(encoding="utf-8")
    shown = re.search(r"```cmake\n(.*?)```", page, re.DOTALL)[1]
    assert shown in (ROOT / "test/consumer/module/CMakeLists.txt").read_text(encoding="utf-8")


def test_readme_has_at_most_120_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_goals_and_files_named_in_commands_exist():
    goals = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match[2] not in ("console", "sh"):
                continue
            for goal in re.findall(r"^(?:\$ )?make ([a-z-]+)", match[3], re.MULTILINE):
                assert goal in goals, page.name
            for file in re.findall(r"(?<![\w/.-])(?:tools|bench|test)/[\w./-]+", match[3]):
                assert (ROOT / file).exists(), f"{page.name}: {file}"
