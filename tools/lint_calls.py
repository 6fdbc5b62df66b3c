# SPDX-License-Identifier: BSL-1.0
"""Finds calls of functions that a header, included alone, only declares.

A header that calls through a forward declaration depends on the header with the definition without including it. A
linker notices this for functions that are no templates; Clang's syntax tree shows it for all. One translation unit
with every header is enough: for each call, a header with the callee's definition must be among those that the header
of the call includes, directly or not. A call that a template's arguments decide depends on the caller, and is not
checked.
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

NODE = re.compile(r"^(?P<indent>[ |`-]*)(?P<kind>\w+) (?P<address>0x[0-9a-f]+) (?P<rest>.*)$")
LOCATION = re.compile(r"(?:line:(?P<same>\d+)|\bcol|(?P<file>[^\s<>,:]+):(?P<line>\d+)):\d+")
PLACE = re.compile(
    r"^(?P<links>(?:(?:parent|prev|first) 0x[0-9a-f]+ )*)<(?P<range>[^<>]*(?:<[^<>]*>[^<>]*)*)>(?P<rest>.*)$"
)
LINK = re.compile(r"(?:prev|instantiated_from) (0x[0-9a-f]+)")
CALLEE = {
    "DeclRefExpr": re.compile(r" (?:Function|CXXMethod) (0x[0-9a-f]+) '([^']+)'"),
    "MemberExpr": re.compile(r" (?:->|\.)(?P<name>[~\w][^']*?) (0x[0-9a-f]+)(?: |$)"),
    "UnresolvedLookupExpr": re.compile(r" = '([^']+)' (0x[0-9a-f]+)$"),
}
FUNCTIONS = {"FunctionDecl", "CXXMethodDecl"}
BODIES = {"CompoundStmt", "CXXTryStmt"}


class Call(NamedTuple):
    file: str
    line: int
    callee: str  # address of a declaration
    name: str


class Tree:
    """What of a syntax tree the check needs: which functions are defined where, and who calls them."""

    def __init__(self):
        self.link: dict[str, str] = {}  # declaration -> an earlier one of the same function
        self.declared: set[str] = set()
        self.defined: dict[str, set[str]] = {}  # first declaration -> files of its definitions
        self.calls: list[Call] = []

    def first(self, address: str) -> str:
        while address in self.link:
            address = self.link[address]
        return address


def read_tree(lines: Iterable[str]) -> Tree:
    tree = Tree()
    file, line = "", 0
    stack: list[tuple[int, str, str, bool]] = []  # depth, address of a function or "", its file, is it an instantiation
    bodies: list[tuple[str, str]] = []
    for text in lines:
        node = NODE.match(text)
        if not node:
            continue
        depth = len(node["indent"])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        instantiated = bool(stack and stack[-1][3])
        kind, address, rest = node["kind"], node["address"], node["rest"]
        place = PLACE.match(rest)
        name_line = None
        if place:
            words = place["rest"]
            begin = None
            for where in LOCATION.finditer(place["range"]):
                if where["file"]:
                    file, line = where["file"], int(where["line"])
                elif where["same"]:
                    line = int(where["same"])
                begin = begin or (file, line)
            if kind.endswith("Decl"):
                where = LOCATION.match(words.strip())
                if where and where["file"]:
                    file, line = where["file"], int(where["line"])
                elif where and where["same"]:
                    line = int(where["same"])
            else:
                name_line = begin
        if kind in FUNCTIONS:
            tree.declared.add(address)
            for link in LINK.findall(rest):
                if link != address:
                    tree.link[address] = link
            instantiated = instantiated or " implicit_instantiation" in rest
            if re.search(r" (default|delete|implicit|constexpr implicit)\b", rest):
                bodies.append((address, file))
            stack.append((depth, address, file, instantiated))
            continue
        if kind == "ClassTemplateSpecializationDecl" and "explicit_specialization" not in rest:
            instantiated = True
        if kind in BODIES and stack and stack[-1][1] and not instantiated:
            bodies.append((stack[-1][1], stack[-1][2]))
        if kind in CALLEE and not instantiated and (found := CALLEE[kind].search(rest)):
            name, callee = found.groups()
            if name.startswith("0x"):
                name, callee = callee, name
            where = name_line or (file, line)
            tree.calls.append(Call(where[0], where[1], callee, name))
        stack.append((depth, "", file, instantiated))
    for address, where in bodies:
        tree.defined.setdefault(tree.first(address), set()).add(where)
    return tree


def syntax_tree(include: Path, names: Iterable[str], compiler: str) -> Tree | None:
    """The tree of one translation unit with all headers; None when it does not compile, which others report."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-fno-color-diagnostics", "-w", "-I."]
    command += ["-Xclang", "-ast-dump", "-Xclang", "-ast-dump-filter=pooled", "-x", "c++", "-"]
    source = "".join(f'#include "pooled/{name}"\n' for name in names)
    done = subprocess.run(
        command, cwd=include, input=source, capture_output=True, text=True, errors="replace", check=False
    )
    return read_tree(done.stdout.splitlines()) if done.returncode == 0 else None


def calls_without_definition(tree: Tree, reached: dict[str, set[str]]) -> list[tuple[str, int, str, str]]:
    """(header, line, callee, header of the definition) of each bad call. `reached`: header -> all it includes."""

    def header(path: str) -> str:
        return path.removeprefix("./").removeprefix("pooled/")

    found = set()
    for call in tree.calls:
        caller = header(call.file)
        first = tree.first(call.callee)
        homes = {header(path) for path in tree.defined.get(first, ())}
        if caller in reached and homes and not homes & (reached[caller] | {caller}) and homes <= set(reached):
            found.add((caller, call.line, call.name, min(homes)))
    return sorted(found)
