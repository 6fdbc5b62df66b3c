# SPDX-License-Identifier: BSL-1.0
"""The three toolchains that the benchmark is built with: presets of CMakePresets.json."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from poolbench.system import process

PROBE = """#include <string>
#include <cstdio>
int main(int argc, char** argv) {
#ifdef _LIBCPP_VERSION
    std::printf("libc++ %d", _LIBCPP_VERSION);
#else
    std::printf("libstdc++ %d", __GLIBCXX__);
#endif
    return std::string(argv[argc - 1]).empty();
}
"""


@dataclass(frozen=True)
class Toolchain:
    name: str  # of the preset
    compiler: str
    flags: tuple[str, ...]
    packages: str


@dataclass(frozen=True)
class Probed:
    """What came of compiling, linking and running a program of ten lines."""

    toolchain: Toolchain
    compiler: str = ""  # its first line of --version
    stdlib: str = ""
    why_absent: str = ""
    seconds: float = 0.0  # that it took

    @property
    def works(self) -> bool:
        return not self.why_absent


TOOLCHAINS = (
    Toolchain("gcc", "g++", (), "g++"),
    Toolchain("clang-libstdcxx", "clang++-19", ("-stdlib=libstdc++",), "clang-19"),
    Toolchain("clang-libcxx", "clang++-19", ("-stdlib=libc++",), "clang-19 libc++-19-dev libc++abi-19-dev"),
)


def probe(toolchain: Toolchain) -> Probed:
    if shutil.which(toolchain.compiler) is None:
        return Probed(toolchain, why_absent=f"{toolchain.compiler} is not installed (Debian: {toolchain.packages})")
    version = (process.output([toolchain.compiler, "--version"]) or "unknown").splitlines()[0]
    with tempfile.TemporaryDirectory(prefix="poolbench-") as directory:
        program = str(Path(directory) / "probe")
        command = [toolchain.compiler, *toolchain.flags, "-std=c++20", "-x", "c++", "-", "-o", program]
        began = time.monotonic()
        if process.output(command, PROBE) is None:
            words = " ".join((toolchain.compiler, *toolchain.flags))
            why = f"{words} cannot link a program (Debian: {toolchain.packages})"
            return Probed(toolchain, version, why_absent=why)
        seconds = time.monotonic() - began
        stdlib = process.output([program, "x"])
        if stdlib is None:
            return Probed(toolchain, version, why_absent=f"a program made by {toolchain.compiler} cannot be run")
    return Probed(toolchain, version, stdlib, seconds=seconds)
