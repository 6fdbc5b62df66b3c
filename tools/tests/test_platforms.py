# SPDX-License-Identifier: BSL-1.0
"""What is not supported is refused in words: the first error says what is wrong and what to do."""

import re
import shutil
import subprocess
import unittest
from pathlib import Path

INCLUDE = Path(__file__).resolve().parent.parent.parent / "include"
GCC = shutil.which("g++-12") or shutil.which("g++")
CLANG = shutil.which("clang++-19") or shutil.which("clang++")
NOT_LINUX = ["-U__linux__", "-U__linux", "-Ulinux", "-U__gnu_linux__"]


def said(compiler: str, *flags: str, header: str = "config") -> str:
    """Of a program that includes the library's lightest header, compiled with `flags`."""
    command = [compiler, *flags, f"-I{INCLUDE}", "-fsyntax-only", "-x", "c++", "-"]
    source = f"#include <pooled/{header}.hpp>\n"
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).stderr


def first_error(compiler: str, *flags: str) -> str:
    """Empty when it compiles."""
    found = re.search(r"error: (.*)", said(compiler, *flags))
    return found[1] if found else ""


@unittest.skipUnless(GCC and CLANG, "GCC and Clang are needed")
class PlatformsTest(unittest.TestCase):
    def test_linux_is_supported_by_both_compilers(self):
        for compiler in (GCC, CLANG):
            self.assertEqual(first_error(compiler, "-std=c++20"), "")

    def test_msvc_is_refused_by_name_whatever_standard_it_announces(self):
        msvc = [*NOT_LINUX, "-D_MSC_VER=1939", "-D_WIN32=1"]
        for standard in ("-std=c++20", "-std=c++17"):
            self.assertIn("does not support MSVC", first_error(GCC, standard, *msvc))

    def test_other_compilers_for_windows_are_refused(self):
        for flags in (["-D_WIN32=1"], ["-D_WIN32=1", "-D_MSC_VER=1939"]):
            error = first_error(CLANG, "-std=c++20", "-U_MSC_VER", *NOT_LINUX, *flags)
            self.assertIn("does not support Windows", error)

    def test_32_bit_programs_are_refused(self):
        for compiler in (GCC, CLANG):
            for flag in ("-m32", "-mx32"):
                self.assertIn("needs 64-bit addresses", first_error(compiler, "-std=c++20", flag), f"{compiler} {flag}")

    def test_another_system_is_refused_unless_asked_for(self):
        for system in ("-D__APPLE__=1", "-D__FreeBSD__=14"):
            self.assertIn("is tested on Linux alone", first_error(GCC, "-std=c++20", *NOT_LINUX, system))
        asked = first_error(GCC, "-std=c++20", *NOT_LINUX, "-DPOOLED_UNTESTED_PLATFORM=1")
        self.assertNotIn("pooled", asked)

    def test_an_older_standard_is_refused(self):
        for compiler in (GCC, CLANG):
            self.assertIn("needs C++20 or later", first_error(compiler, "-std=c++17"))

    def test_nothing_follows_from_an_older_standard(self):
        for compiler in (GCC, CLANG):
            for header in ("pooled", "make_shared"):
                self.assertLess(said(compiler, "-std=c++17", header=header).count("\n"), 15)
