# SPDX-License-Identifier: BSL-1.0
"""What is not supported is refused in words: the first error says what is wrong and what to do."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parent.parent.parent / "include"
GCC = shutil.which("g++-12") or shutil.which("g++")
CLANG = shutil.which("clang++-19") or shutil.which("clang++")
NOT_LINUX = ["-U__linux__", "-U__linux", "-Ulinux", "-U__gnu_linux__"]
MSVC = [*NOT_LINUX, "-D_MSC_VER=1939", "-D_WIN32=1"]
WINDOWS = ["-std=c++20", "-U_MSC_VER", *NOT_LINUX, "-D_WIN32=1"]

pytestmark = pytest.mark.skipif(not (GCC and CLANG), reason="GCC and Clang are needed")


def said(compiler: str, *flags: str, header: str = "config") -> str:
    """Of a program that includes the library's lightest header, compiled with `flags`."""
    command = [compiler, *flags, f"-I{INCLUDE}", "-fsyntax-only", "-x", "c++", "-"]
    source = f"#include <pooled/{header}.hpp>\n"
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).stderr


def first_error(compiler: str, *flags: str) -> str:
    """Empty when it compiles."""
    found = re.search(r"error: (.*)", said(compiler, *flags))
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("compilers", "flags", "error"),
    [
        ([GCC], ["-std=c++20", *MSVC], "does not support MSVC"),
        ([GCC], ["-std=c++17", *MSVC], "does not support MSVC"),  # whatever standard it announces
        ([CLANG], WINDOWS, "supports Windows on x86-64 alone, with MinGW-w64"),
        ([CLANG], [*WINDOWS, "-D_MSC_VER=1939"], "does not support MSVC"),
        ([CLANG], [*WINDOWS, "-D__MINGW32__=1", "-DPOOLED_SHARED=1"], "there is no DLL of it"),
        ([GCC, CLANG], ["-std=c++20", "-m32"], "needs 64-bit addresses"),
        ([GCC, CLANG], ["-std=c++20", "-mx32"], "needs 64-bit addresses"),
        ([GCC], ["-std=c++20", *NOT_LINUX, "-D__APPLE__=1"], "is tested on Linux and Windows alone"),
        ([GCC], ["-std=c++20", *NOT_LINUX, "-D__FreeBSD__=14"], "is tested on Linux and Windows alone"),
        ([GCC, CLANG], ["-std=c++17"], "needs C++20 or later"),
    ],
)
def test_what_is_not_supported_is_refused_in_words(compilers, flags, error):
    for compiler in compilers:
        assert error in first_error(compiler, *flags)


def test_another_system_is_accepted_when_asked_for():
    flags = ["-std=c++20", *NOT_LINUX, "-DPOOLED_UNTESTED_PLATFORM=1"]
    assert "pooled" not in first_error(GCC, *flags)
    assert "error" not in said(GCC, *flags, header="pooled")


@pytest.mark.parametrize("compiler", [GCC, CLANG])
@pytest.mark.parametrize("header", ["pooled", "make_shared"])
def test_nothing_follows_from_an_older_standard(compiler, header):
    assert said(compiler, "-std=c++17", header=header).count("\n") < 15
