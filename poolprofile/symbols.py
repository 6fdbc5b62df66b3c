# SPDX-License-Identifier: BSL-1.0
"""Addresses of a program to functions, files and lines, inlined calls expanded: asked of binutils' addr2line after the
run. Of a stripped program addr2line names the exported function that lies before an address, however far; only those
that end behind it are believed, so that functions without a name stay unknown."""

import bisect
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from poolbench.errors import Failed
from poolbench.system import process
from poolprofile.trace import Module

SECONDS = 300  # for one module: a large one with debug information takes a while
UNKNOWN = "??"


@dataclass(frozen=True)
class Frame:
    function: str  # demangled; "??": unknown
    file: str
    line: int
    module: str

    @property
    def where(self) -> str:
        """What a reader looks for: file and line, else function, else module."""
        if self.line:
            return f"{os.path.basename(self.file)}:{self.line}"
        return self.function if self.function != UNKNOWN else f"{os.path.basename(self.module)} (no debug information)"


def _said(tool: str, *words: str, asked: str = "") -> list[str]:
    """The lines that a tool writes; none when it takes too long."""
    if not shutil.which(tool):
        raise Failed(f"{tool} is missing (Debian: apt install binutils)")
    return (process.output([tool, *words], asked, seconds=SECONDS) or "").splitlines()


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Of types, as std::type_info names them; a leading * says that the name is local to a module."""
    names = sorted(set(names))
    if not names:
        return {}
    said = _said("c++filt", asked="\n".join("_Z" + "TS" + name.lstrip("*") for name in names))
    return dict(zip(names, (line.removeprefix("typeinfo name for ") for line in said), strict=True))


def _parse(said: list[str], module: str) -> dict[int, tuple[Frame, ...]]:
    """addr2line -a -f -i: an address, then a function and its place for each call that is inlined there."""
    found: dict[int, list[Frame]] = {}
    lines = iter(said)
    frames: list[Frame] = []
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            frames = found.setdefault(int(line, 16), [])
            continue
        file, _, number = next(lines, "??:0").rpartition(":")
        number = number.split(" ", 1)[0]  # "12 (discriminator 3)"
        frames.append(Frame(line, file, int(number) if number.isdigit() else 0, module))
    return {address: tuple(frames) for address, frames in found.items()}


def _functions(path: str) -> list[tuple[int, int]]:
    """Begin and end of each function that the module names, sorted."""
    found: list[tuple[int, int]] = []
    for words in (["-S"], ["-D", "-S"]):
        fields = [line.split() for line in ([] if found else _said("nm", *words, "--defined-only", path))]
        found += [(int(f[0], 16), int(f[0], 16) + int(f[1], 16)) for f in fields if len(f) == 4 and f[2] in "tTwWiu"]
    return sorted(found)


def _believed(frames: tuple[Frame, ...], address: int, functions: list[tuple[int, int]]) -> tuple[Frame, ...]:
    """Without the name of a function that the address is not in."""
    if any(frame.line for frame in frames):
        return frames
    at = bisect.bisect_right(functions, (address, 1 << 64)) - 1
    if at >= 0 and address < functions[at][1]:
        return frames
    return tuple(Frame(UNKNOWN, frame.file, 0, frame.module) for frame in frames)


class Symbols:
    """Of one process."""

    def __init__(self, modules: list[Module]):
        self._modules = sorted(modules, key=lambda module: module.begin)
        self._begins = [module.begin for module in self._modules]
        self._known: dict[int, tuple[Frame, ...]] = {}

    def _module_of(self, address: int) -> Module | None:
        at = bisect.bisect_right(self._begins, address) - 1
        return self._modules[at] if at >= 0 and address < self._modules[at].end else None

    def load(self, addresses: Iterable[int]) -> None:
        """Asks for return addresses, all at once; those of calls are one less."""
        wanted: dict[Module, list[int]] = {}
        for address in set(addresses) - self._known.keys():
            module = self._module_of(address)
            if module is None or not os.path.isfile(module.path):
                path = module.path if module else UNKNOWN
                self._known[address] = (Frame(UNKNOWN, UNKNOWN, 0, path),)
            else:
                wanted.setdefault(module, []).append(address)
        for module, those in wanted.items():
            asked = "\n".join(f"0x{address - 1 - module.base:x}" for address in those)
            said = _said("addr2line", "-a", "-f", "-i", "-C", "-e", module.path, asked=asked)
            parsed, functions = _parse(said, module.path), _functions(module.path)
            for address in those:
                at = address - 1 - module.base
                unknown = (Frame(UNKNOWN, UNKNOWN, 0, module.path),)
                self._known[address] = _believed(parsed.get(at) or unknown, at, functions)

    def frames(self, addresses: Iterable[int]) -> list[Frame]:
        """Innermost first; the addresses must have been loaded."""
        return [frame for address in addresses for frame in self._known[address]]
