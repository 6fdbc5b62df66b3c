# SPDX-License-Identifier: BSL-1.0
"""The benchmark compiled for a type or a pattern of the user's own, with the user's flags.

The compiler first sees the user's header alone, then the type made from the arguments: what it says of these few lines
is about the user's code, where a whole build would bury it in the standard library's."""

import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from poolbench.errors import BadInput
from poolbench.plan import program
from poolbench.system import build, mallocs
from poolbench.system.toolchains import Probed

TYPE, PATTERN = "own_type", "own_pattern"  # the workloads, and the values of the CMake variable
TARGET = "pooled-bench-own"
SETTINGS = "own_settings.hpp"
TEMPLATE = build.ROOT / "bench" / PATTERN / "template.hpp"
PATHS = ("-I", "-isystem", "-iquote", "-include", "-L")  # options that a path follows
TOLD_LINES = 4  # of the first error: what, where, and the caret


@dataclass(frozen=True)
class Own:
    """What is to be measured."""

    header: Path
    type_name: str = ""  # empty: the header holds a pattern
    arguments: str = ""
    compile_options: list[str] = field(default_factory=list)
    link_options: list[str] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)

    @property
    def workload(self) -> str:
        return TYPE if self.type_name else PATTERN

    def settings(self) -> str:
        lines = [f'#include "{self.header}"']
        if self.type_name:
            lines += [
                f"using poolbench_own_type = {self.type_name};",
                f"#define POOLBENCH_OWN_ARGUMENTS {self.arguments}",
            ]
        return "\n".join(["#pragma once", *lines, ""])


def split_flags(text: str, here: Path) -> tuple[list[str], list[str]]:
    """(compiler options, linker options), with paths made absolute: the compiler runs in another directory."""
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise BadInput(f"--flags '{text}' cannot be split into words: {error}") from error
    compiled, linked = [], []
    for word in words:
        whole = [word]
        option = next((each for each in PATHS if word.startswith(each)), None)
        if option is not None:
            path = word.removeprefix(option) or next(words, "")
            if not path:
                raise BadInput(f"--flags ends with {option}, without a path")
            # -include names a file that may also be found along the include path.
            absolute = path if option == "-include" and not (here / path).exists() else str((here / path).resolve())
            whole = [option + absolute] if option in ("-I", "-L") else [option, absolute]
        if word.startswith(("-l", "-L", "-Wl,")):
            linked += whole
        else:
            compiled += ["SHELL:" + shlex.join(whole)] if len(whole) > 1 else whole
            if word.startswith(("-f", "-m", "-pthread", "-stdlib")):  # those that the linker must know as well
                linked += whole
    return compiled, linked


def _first_error(said: str) -> str:
    lines = said.splitlines()
    at = next((number for number, line in enumerate(lines) if "error:" in line), None)
    return "\n".join(lines[at : at + TOLD_LINES] if at is not None else lines[:TOLD_LINES])


def _check(compiler: list[str], text: str, directory: Path, options: list[str]) -> str:
    """The first error, or an empty string."""
    words = [each for option in options for each in shlex.split(option.removeprefix("SHELL:"))]
    command = [*compiler, "-std=c++20", f"-I{directory}", f"-I{build.ROOT / 'bench'}", f"-I{build.ROOT / 'include'}"]
    command += ["-w", "-fsyntax-only", *words, "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else _first_error(done.stderr)


def _why_not(own: Own, compiler: list[str], directory: Path) -> str:
    """Empty when the compiler takes the user's code."""
    include = f'#include "{SETTINGS}"\n'
    made = (
        f"{include}#include <memory>\n"
        "void poolbench_check() { delete new ::poolbench_own_type(POOLBENCH_OWN_ARGUMENTS);\n"
        "    (void)std::make_shared<::poolbench_own_type>(POOLBENCH_OWN_ARGUMENTS); }\n"
        if own.type_name
        else f'{include}#include "contender/make_shared.hpp"\ntemplate class ::pattern<bench::make_shared_contender>;\n'
    )
    said = _check(compiler, made, directory, own.compile_options)
    if not said:
        return ""
    alone = _check(compiler, f'#include "{own.header}"\n', directory, own.compile_options)
    if alone:
        return f"{own.header} does not compile by itself:\n{alone}"
    if not own.type_name:
        return f"{own.header} holds no pattern that can be measured (--new-pattern FILE writes one that can):\n{said}"
    named = _check(compiler, include, directory, own.compile_options)
    if named:
        return f"{own.header} has no type {own.type_name}:\n{named}"
    hint = "" if own.arguments else "; name its constructor's arguments with --args"
    return f"no {own.type_name} can be made from ({own.arguments}){hint}:\n{said}"


def built(own: Own, probed: Probed, say: Callable[[str], None]) -> program.Program:
    """Raises BadInput or Failed."""
    name = probed.toolchain.name
    directory = build.BUILDS / f"own-{name}"
    settings = directory / "own"
    settings.mkdir(parents=True, exist_ok=True)
    file, text = settings / SETTINGS, own.settings()
    if not file.is_file() or file.read_text() != text:
        file.write_text(text)
    compiler = [shutil.which(probed.toolchain.compiler) or probed.toolchain.compiler, *probed.toolchain.flags]
    if why := _why_not(own, compiler, settings):
        raise BadInput(why)

    def listed(values) -> str:
        return ";".join(str(value).replace(";", "\\;") for value in values)

    arguments = [
        f"-DPOOLED_BENCH_WORKLOADS={own.workload}", f"-DPOOLED_BENCH_OWN={own.workload}",
        f"-DPOOLED_BENCH_OWN_DIRECTORY={settings}", f"-DPOOLED_BENCH_OWN_COMPILE={listed(own.compile_options)}",
        f"-DPOOLED_BENCH_OWN_LINK={listed(own.link_options)}", f"-DPOOLED_BENCH_OWN_SOURCES={listed(own.sources)}",
    ]  # fmt: skip
    bench = build.alone(probed, directory, TARGET, arguments, say)
    if not build.run(["cmake", "--build", str(directory), "--target", "pooled_new"]):
        say(f"{mallocs.OURS} cannot be built, and is not measured")
    return bench
