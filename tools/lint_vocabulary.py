#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Counts words that the project does not use, a line a file; the status is 1 when there are any.

usage: lint_vocabulary.py [--root DIR]

docs/concepts.md lists the words to use. A word is found whole, in any case, also as a part of a snake_case name.
"""

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ["include", "docs", "README.md", "test"]
SUFFIXES = {".cpp", ".hpp", ".in", ".md", ".txt"}

# Word (a space stands for spaces, a line's end or an underscore) -> what to write instead.
WORDS = {
    "raid": "steal",
    "raids": "steals",
    "raider": "the thread that steals",
    "raiders": "threads that steal",
    "carrier": "chunk, slab or batch",
    "carriers": "chunks, slabs or batches",
    "magazine": "thread cache, or batch",
    "magazines": "thread caches, or batches",
    "come home": "return",
    "comes home": "returns",
    "came home": "returned",
    "patience": "timeout",
    "can not be had": "missing",
    "bears": "has",
    "be told": "be reported",
}


def pattern(word: str) -> re.Pattern[str]:
    # Between the words of a phrase: blanks, or a line's end with the next line's comment mark.
    inside = r"(?:_|[ \t]+|[ \t]*\n[ \t]*(?://|\*|#)?[ \t]*)".join(map(re.escape, word.split()))
    return re.compile(rf"(?<![a-z0-9]){inside}(?![a-z0-9])", re.IGNORECASE)


PATTERNS = {word: pattern(word) for word in WORDS}


def words_in(text: str) -> Counter[str]:
    counts = Counter({word: len(each.findall(text)) for word, each in PATTERNS.items()})
    return +counts


def check(root: Path) -> dict[str, Counter[str]]:
    """File, relative to root -> its words; a file's name counts, too."""
    found = {}
    for place in PLACES:
        top = root / place
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES:
                name = path.relative_to(root).as_posix()
                if words := words_in(f"{name}\n{path.read_text(encoding='utf-8')}"):
                    found[name] = words
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="directory that holds include/, docs/, test/")
    found = check(parser.parse_args(argv).root)
    for name, words in found.items():
        print(f"{name}: " + ", ".join(f"{word} {count}" for word, count in words.most_common()))
    total = sum(found.values(), Counter())
    for word, count in total.most_common():
        print(f"vocabulary: {count:4} `{word}`: write `{WORDS[word]}`")
    print(f"vocabulary: {total.total()} in {len(found)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
