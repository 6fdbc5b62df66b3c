#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Builds the documentation site; what `make docs` calls.

usage: make_docs.py [OUTPUT]

The site, in build/site by default, works from disk and without a network: README.md is its first page, docs/ the guide
and the cookbook; the reference has each public name (reference.py) and each public header. MkDocs' strict mode makes an
error of each warning, a link that leads nowhere among them. Search works without a server, too.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import reference  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / "build/site-source"
SITE = ROOT / "tools/site"  # settings, style and a script of the site
# Pages of the site that lie outside of docs/.
OUTSIDE = {
    "README.md": "index.md",
    "compat/README.md": "migration.md",
    **{f"compat/docs/{path.name}": f"migration/{path.name}" for path in (ROOT / "compat/docs").glob("*.md")},
    "poolprofile/README.md": "profile.md",
    "poolprofile/trace-format.md": "trace-format.md",
}
LINK = re.compile(r"\]\(([^)\s#:]*)(#[^)\s]*)?\)")


def headers() -> dict[str, str]:
    """Public header -> the first names that it declares."""
    umbrella = (ROOT / "include/pooled/pooled.hpp").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {header: [] for header in re.findall(r'#include "pooled/(.*)"', umbrella)}
    for page in reference.pages():
        for name, entry in page["names"].items():
            found.setdefault(entry["header"], []).append(name)
    return {header: ", ".join(names[:2]) or header for header, names in sorted(found.items())}


HEADERS = headers()
GUIDE = ["contents", "why", "install", "pools", "object-pool", "counted-pointers", "teardown", "debugging"]
GUIDE += ["plugins", "new-delete", "malloc", "heap", "system-calls"]
GUIDE += ["compiled-library", "platforms", "modules", "faq"]
INSIDE = ["concepts", "one-allocation", "mechanisms", "tried", "mutants", "dependencies"]
MEASURE = ["benchmarks", "profile", "trace-format"]
MOVE = ["comparison", "migration"]
# What the search multiplies a page's score by: answers come first, then the guide, last what is for developers.
RANK = {**dict.fromkeys(GUIDE, 2), **dict.fromkeys(MEASURE, 0.3), **dict.fromkeys(INSIDE, 0.05), "faq": 6}
BEHIND = "---\nsearch:\n  boost: 0.2\n---\n"  # of a header
CONFIGURATION = "INHERIT: {settings}\ndocs_dir: {docs}\nsite_dir: {site}\nnav:\n{navigation}\n"


def page_of(header: str) -> str:
    return f"headers/{header.removesuffix('.hpp').replace('/', '-')}.md"


def reference_page(header: str, names: str) -> str:
    """The story at the top of a header as text, then the header itself."""
    text = (ROOT / "include/pooled" / header).read_text(encoding="utf-8")
    body = text.split("#pragma once\n", 1)[1].strip("\n").splitlines()
    story = list(itertools.takewhile(lambda line: line.startswith("//"), body))
    # In a story, what is indented by three spaces is code.
    lines = [line[2:].removeprefix(" ") for line in story]
    said = "\n".join(f"    {line}" if line.startswith("  ") else reference.as_markdown(line) for line in lines)
    code = "\n".join(line for line in body[len(story) :] if not line.startswith("#include"))
    code = re.sub(r"\n{3,}", "\n\n", code).strip("\n")
    start = f"`#include <pooled/{header}>`, or `<pooled/pooled.hpp>`."
    return f"{BEHIND}# {names}\n\n{start}\n\n{said}\n\n## Declarations\n\n```cpp\n{code}\n```\n"


def redirect(text: str, source: Path, page: Path) -> str:
    """Links of `source`, a file of the checkout, from `page` of the site. What is not in the site loses its link."""

    def target(match: re.Match) -> str:
        path, anchor = match[1], match[2] or ""
        if not path:
            return match[0]
        file = (source.parent / path).resolve()
        name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else ""
        to = OUTSIDE.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else None)
        if (header := name.removeprefix("include/pooled/")) in HEADERS:
            to = page_of(header)
        return f"]({os.path.relpath(STAGE / to, page.parent)}{anchor})" if to else "](NOT_IN_SITE)"

    def without_link(match: re.Match) -> str:
        return f"`{match[2]}`" if re.fullmatch(r"[\w.-]*[/.][\w./-]+", match[2]) else match[2]  # a file's name is code

    return re.sub(r"(!?)\[([^\]]*)\]\(NOT_IN_SITE\)", without_link, LINK.sub(target, text))


def navigation() -> str:
    def part(name: str, pages: list[str]) -> str:
        return f"  - {name}:\n" + "".join(f"      - {page}\n" for page in pages)

    cookbook = sorted(path.name for path in (ROOT / "docs/cookbook").glob("*.md") if path.stem != "README")
    migrations = sorted(f"migration/{path.name}" for path in (ROOT / "compat/docs").glob("*.md"))
    return (
        "  - Home: index.md\n"
        + part("Guide", [f"{page}.md" for page in GUIDE])
        + part("Cookbook", ["cookbook/README.md", *(f"cookbook/{page}" for page in cookbook)])
        + part("Reference", [f"reference/{page['file']}.md" for page in reference.pages()])
        + part("Headers", [f"'{names}': {page_of(header)}" for header, names in HEADERS.items()])
        + part("Other libraries", [*(f"{page}.md" for page in MOVE), *migrations])
        + part("Benchmarks", [f"{page}.md" for page in MEASURE])
        + part("Internals", [f"{page}.md" for page in INSIDE])
    )


def make_local(site: Path):
    """Replaces the script that the theme would load from a server, for search in pages opened from disk."""
    shutil.copy(SITE / "file_worker.js", site / "assets/file_worker.js")
    for page in site.rglob("*.html"):
        local = os.path.relpath(site / "assets/file_worker.js", page.parent)
        text = page.read_text(encoding="utf-8").replace("https://unpkg.com/iframe-worker/shim", local)
        if re.search(r'<(?:script|img|link)[^>]* (?:src|href)="https?:', text):
            raise SystemExit(f"make_docs.py: {page} loads something from a server")
        page.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or any(each.startswith("-") for each in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    site = Path(arguments[0]).resolve() if arguments else ROOT / "build/site"
    shutil.rmtree(STAGE, ignore_errors=True)
    for source in [*(ROOT / name for name in OUTSIDE), *sorted((ROOT / "docs").rglob("*"))]:
        if source.is_dir() or source == reference.SOURCE:
            continue
        name = source.relative_to(ROOT).as_posix()
        page = STAGE / OUTSIDE.get(name, name.removeprefix("docs/"))
        page.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            # The first page is alone in its section: no list of pages beside it.
            rank = RANK.get(page.stem) if page.parent == STAGE else None
            head = "hide: [navigation]\n" if page.name == "index.md" else ""
            head += f"search:\n  boost: {rank}\n" if rank else ""
            head = f"---\n{head}---\n" if head else ""
            page.write_text(head + redirect(source.read_text(encoding="utf-8"), source, page), encoding="utf-8")
        else:
            shutil.copy(source, page)
    reference.write(STAGE / "reference", lambda text, page: redirect(text, ROOT / "docs/reference" / page.name, page))
    shutil.copy(SITE / "style.css", STAGE)
    (STAGE / "headers").mkdir(parents=True)
    for header, names in HEADERS.items():
        (STAGE / page_of(header)).write_text(reference_page(header, names), encoding="utf-8")
    configuration = ROOT / "build/mkdocs.yml"
    folders = {"settings": SITE / "mkdocs.yml", "docs": STAGE, "site": site}
    configuration.write_text(CONFIGURATION.format(**folders, navigation=navigation()), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(configuration)]
    status = subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False).returncode
    if status == 0:
        make_local(site)
        print(site / "index.html")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
