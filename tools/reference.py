# SPDX-License-Identifier: BSL-1.0
"""The API reference: pages of docs/reference.toml, each name with its declarations, by Doxygen, and its example.

Doxygen parses the headers (access, templates, constraints) and gives XML. The headers' comments are plain, so it reads
copies in which they are marked as documentation. As in the headers, a comment is for all declarations up to the next.
"""

import html
import itertools
import os
import re
import shutil
import subprocess
import textwrap
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/pooled"
SOURCE = ROOT / "docs/reference.toml"
EXAMPLES = ROOT / "examples/docs/reference.cpp"
WORK = ROOT / "build/doxygen"
# Where members of public classes are declared besides the headers of the reference.
SHARED = ["fwd.hpp", "smart/makers.hpp"]
FACTS = {"complexity": "Complexity", "exceptions": "Exceptions", "threads": "Thread safety"}


def escape(comment: str) -> str:
    """Doxygen must find neither commands nor markup in a comment."""
    return re.sub(r"([@\\])", r"\\\1", html.escape(comment, quote=False))


def of_members_out_of_class(lines: list[str], i: int) -> bool:
    """Whether line i is of a comment on a definition, which is for readers of the code."""
    code = itertools.dropwhile(lambda line: line.startswith("//"), lines[i:])
    return next(code, "").startswith("template <sharing Sharing>")


def marked(text: str) -> str:
    """A header whose comments on declarations are Doxygen's. The story at its top stays a plain comment."""
    start = re.match(r".*?#pragma once\n\s*(//[^\n]*\n)*", text, re.DOTALL).end()
    # Without specialisations in std.
    last = text.rfind("\nPOOLED_END_NAMESPACE\n")
    end = len(text) if last < 0 else text.index("\n", last + 1)
    lines = text[start:end].splitlines()
    for i, line in enumerate(lines):
        line = re.sub(r"\s*// NOLINT.*", "", line)
        if line.startswith("//") and of_members_out_of_class(lines, i):
            continue
        if own := re.match(r"(\s*)// ?(.*)", line):
            line = f"{own[1]}/// {escape(own[2])}"
        elif behind := re.match(r"(\s.*[;,{]|\S.*;)\s+// (.*)", line):
            line = f"{behind[1]} ///< {escape(behind[2])}"
        lines[i] = line
    return text[:start] + "\n".join(lines) + "\n"


@dataclass
class Declaration:
    name: str
    comment: str
    signature: str
    line: int
    starts_group: bool = False  # behind a blank line


def text_of(element) -> str:
    return "" if element is None else re.sub(r"\s+", " ", "".join(element.itertext())).strip()


def comment_of(member) -> str:
    kinds = ("briefdescription", "detaileddescription")
    return "\n\n".join(filter(None, (text_of(each) for kind in kinds for each in member.iterfind(f"{kind}/para"))))


def signature_of(member) -> str:
    kind = member.get("kind")
    name = member.findtext("name")
    parameters = member.find("templateparamlist")
    lines = []
    if parameters is not None:
        shown = []
        for each in parameters.iterfind("param"):
            shown.append(text_of(each.find("type")))
            if each.find("declname") is not None and not shown[-1].endswith(each.findtext("declname")):
                shown[-1] += f" {each.findtext('declname')}"
            if each.find("defval") is not None:
                shown[-1] += f" = {text_of(each.find('defval'))}"
        lines.append(f"template <{', '.join(shown)}>")
    constraint = ""
    if member.find("requiresclause") is not None:
        constraint = f"    requires {text_of(member.find('requiresclause'))}"
    if constraint and parameters is not None:
        lines.append(constraint)
    kind_of_type = text_of(member.find("type"))
    if kind == "typedef":
        lines.append(f"using {name} = {kind_of_type.removeprefix('typedef ')};")
    elif kind == "enum":
        values = ", ".join(each.findtext("name") for each in member.iterfind("enumvalue"))
        lines.append(f"enum class {name} {{ {values} }};")
    else:
        given = text_of(member.find("initializer")) if kind == "variable" else ""
        arguments = re.sub(r"(?<=[\w)>&*])=(?=[\w~{])", " = ", text_of(member.find("argsstring")))
        explicit = "explicit " if member.get("explicit") == "yes" else ""
        end = "" if constraint and parameters is None else ";"
        lines.append(" ".join(f"{explicit}{kind_of_type} {name}{arguments}{' ' + given if given else ''}{end}".split()))
        if not end:
            lines.append(f"{constraint};")
    return "\n".join(lines)


def declarations(elements) -> list[Declaration]:
    """Public ones that are a user's to call, in the order of the header."""
    found = []
    for member in elements:
        name = member.findtext("name")
        is_hidden = member.get("prot") != "public" or member.get("kind") == "friend" and "operator" not in name
        if is_hidden or "detail::" in name or name.startswith("~"):
            continue
        line = int(member.find("location").get("line"))
        found.append(Declaration(name, comment_of(member), signature_of(member), line))
        file = WORK / "source" / member.find("location").get("file")
    found.sort(key=lambda each: each.line)
    lines = file.read_text(encoding="utf-8").splitlines() if found else []
    for before, each in itertools.pairwise(found):
        each.starts_group = "" in lines[before.line : each.line]
    return found


class Headers:
    """What Doxygen reads in the headers of the reference."""

    def __init__(self, headers: list[str]):
        if not shutil.which("doxygen"):
            raise SystemExit("reference.py: doxygen is missing (Debian, Ubuntu: apt-get install doxygen)")
        shutil.rmtree(WORK, ignore_errors=True)
        for header in {*headers, *SHARED}:
            copy = WORK / "source" / header
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(marked((INCLUDE / header).read_text(encoding="utf-8")), encoding="utf-8")
        command, environment = ["doxygen", ROOT / "tools/Doxyfile"], {**os.environ, "WORK": str(WORK)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 or done.stderr:
            raise SystemExit(f"reference.py: doxygen: {done.stderr}")
        self._compounds = {}
        for file in (WORK / "xml").glob("*.xml"):
            for compound in ET.parse(file).iterfind("compounddef"):
                self._compounds[compound.findtext("compoundname")] = compound

    def public_names(self) -> set[str]:
        """Of namespace pooled: classes, functions, aliases, variables and enumerations, operators aside."""
        names = {
            name.removeprefix("pooled::").partition("<")[0].strip()
            for name in self._compounds
            if name.startswith("pooled::")
        }
        names = {name for name in names if "::" not in name and name != "detail"}
        own = {each.name for each in self.members("pooled")}
        return names | {name for name in own if not name.startswith("operator") and "<" not in name}

    def members(self, name: str) -> list[Declaration] | None:
        """Of a class or namespace; None when no header has it."""
        found = self._compounds.get(name)
        return None if found is None else declarations(found.iter("memberdef"))


def as_users_write(signature: str, name: str) -> str:
    """Without the names of the classes that the public ones share, and spaced as the headers are."""
    text = re.sub(r"< | (?=>)", lambda m: m[0].strip(), signature)
    text = re.sub(r"(?<=<)\s+|\s+(?=>)(?!>=)", "", text)
    text = re.sub(r"\s+([&*]+)\s*(\.\.\.)?\s*(?=[\w)])", r"\1\2 ", text).replace(" )", ")").replace(" ,", ",")
    kind = "local_" if name.startswith(("local_", "weak_local_")) else ""
    text = re.sub(r"\bcounted_base<(\w+), Counting>", rf"{kind}rc_ptr<\1>", text)
    text = re.sub(r"\bcounted_ptr<(\w+), OtherCounting>", rf"{'' if kind else 'local_'}rc_ptr<\1>", text)
    text = re.sub(r"\b(weak_)?counted_ptr(?:(<\w+), Counting(>))?", rf"\1{kind}rc_ptr\2\3", text)
    alias = r"\b(?:detail::)?(weak_)?rc_ptr_of<(\w+), (?:Counting|counting_of<Sharing>)>"
    text = re.sub(alias, rf"\1{kind}rc_ptr<\2>", text)
    text = re.sub(r"\bbasic_(pool|object_pool)\b", name, text)
    text = re.sub(r" && \(!std::same_as<Counting, OtherCounting>\)", "", text)
    return re.sub(r", class (?:Other)?Counting\b", "", text.replace("detail::", "")).replace("  ", " ")


def is_declared_by_base(each: Declaration, others: list[Declaration], name: str) -> bool:
    """Whether `each` is a defaulted member or a type, and the base, which the page also shows, declares the same."""

    def without_names(one: Declaration) -> str:
        text = re.sub(r"^constexpr | = default|;$", "", as_users_write(one.signature, name))
        return re.sub(r"(?<=[&>])\s*\w+(?=[,)])", "", text)

    later = others[others.index(each) + 1 :]
    is_repeatable = each.signature.endswith("= default;") or each.signature.startswith("using ")
    return is_repeatable and any(without_names(one) == without_names(each) for one in later)


def example_of(name: str) -> str:
    """The body of the function of that name in the program of the examples."""
    found = re.search(
        rf"^void {name}\(\) \{{\n(.*?)^\}}", EXAMPLES.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    if not found:
        raise SystemExit(f"reference.py: {EXAMPLES} has no example of {name}")
    return textwrap.dedent(found[1])


def pages() -> list[dict]:
    with SOURCE.open("rb") as file:
        return tomllib.load(file)["page"]


def listed_names() -> set[str]:
    """All that the pages are about."""
    entries = [entry for page in pages() for entry in page["names"].items()]
    return {name for key, entry in entries for name in entry.get("names", [key])}


def as_markdown(comment: str) -> str:
    """Marks names of code in a plain comment."""
    name = r"(?:\b\w+::)+\w+(?:\(\))?|\b[a-z]\w*_\w*(?:\(\))?|\b\w+\(\)"
    parts = comment.split("`")  # every second one is code already
    parts[::2] = (re.sub(name, r"`\g<0>`", part.replace("<", "&lt;")) for part in parts[::2])
    return "`".join(parts)


def shown_declarations(found: list[Declaration], name: str) -> str:
    """The comment of a group, then its declarations, up to the next comment."""
    out, code = [], []
    for each in found:
        if (each.comment or each.starts_group) and code:
            out += ["```cpp", *code, "```", ""]
            code = []
        if each.comment:
            out += [as_markdown(each.comment), ""]
        code.append(as_users_write(each.signature, name))
    return "\n".join([*out, *(["```cpp", *code, "```", ""] if code else [])])


def section_of(name: str, entry: dict, headers: Headers) -> str:
    rows = "".join(f"| **{title}** | {entry[key]} |\n" for key, title in FACTS.items())
    classes = entry.get("doxygen", [f"pooled::{name}"])
    names = entry.get("names", [name])
    found = [each for each in headers.members("pooled") if each.name in names]
    for one in classes:
        members = headers.members(one)
        if members is not None:
            for first in members[:1]:
                first.starts_group = True
            found += members
        elif "doxygen" in entry:
            raise SystemExit(f"reference.py: {SOURCE.name}: no header has class {one}")
    found = [each for each in found if not is_declared_by_base(each, found, name)]
    return (
        f"## {name}\n\n{entry['text']}\n\n`#include <pooled/{entry['header']}>`, or `<pooled/pooled.hpp>`.\n\n"
        f"| | |\n|---|---|\n{rows}\n"
        f'```cpp title="Example"\n{example_of(name)}```\n\n'
        f"{shown_declarations(found, name)}\n"
    )


def write(folder: Path, redirect) -> None:
    """Writes the pages into `folder`. `redirect` mends links, as make_docs.py does for other pages."""
    everything = pages()
    headers = Headers(sorted({entry["header"] for page in everything for entry in page["names"].values()}))
    folder.mkdir(parents=True, exist_ok=True)
    for page in everything:
        listed = ", ".join(f"[{name}](#{name})" for name in page["names"])
        body = "".join(section_of(name, entry, headers) for name, entry in page["names"].items())
        file = folder / f"{page['file']}.md"
        file.write_text(redirect(f"# {page['title']}\n\n{listed}\n\n{body}", file), encoding="utf-8")
