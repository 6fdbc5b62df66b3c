# SPDX-License-Identifier: BSL-1.0
"""The three toolchains that the benchmark is built with: presets of CMakePresets.json."""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROBE = """#include <version>
#include <string>
#include <cstdio>
int main(int argc, char** argv) {
#if defined(_LIBCPP_VERSION)
    std::printf("libc++ %d", _LIBCPP_VERSION);
#elif defined(__GLIBCXX__)
    std::printf("libstdc++ %d", __GLIBCXX__);
#endif
    return std::string(argv[argc - 1]).empty();
}
"""
PROBE_SECONDS = 60


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

    @property
    def works(self) -> bool:
        return not self.why_absent


TOOLCHAINS = (
    Toolchain("gcc", "g++", (), "g++"),
    Toolchain("clang-libstdcxx", "clang++-19", ("-stdlib=libstdc++",), "clang-19"),
    Toolchain("clang-libcxx", "clang++-19", ("-stdlib=libc++",), "clang-19 libc++-19-dev libc++abi-19-dev"),
)


def _output(command: list[str], text: str = "") -> str | None:
    """Standard output, or None when the command failed."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def probe(toolchain: Toolchain) -> Probed:
    if shutil.which(toolchain.compiler) is None:
        return Probed(toolchain, why_absent=f"{toolchain.compiler} is not installed (Debian: {toolchain.packages})")
    version = (_output([toolchain.compiler, "--version"]) or "unknown").splitlines()[0]
    with tempfile.TemporaryDirectory(prefix="poolbench-") as directory:
        program = str(Path(directory) / "probe")
        command = [toolchain.compiler, *toolchain.flags, "-std=c++20", "-x", "c++", "-", "-o", program]
        if _output(command, PROBE) is None:
            words = " ".join((toolchain.compiler, *toolchain.flags))
            return Probed(
                toolchain, version, why_absent=f"{words} cannot link a program (Debian: {toolchain.packages})"
            )
        stdlib = _output([program, "x"])
        if stdlib is None:
            return Probed(toolchain, version, why_absent=f"a program made by {toolchain.compiler} cannot be run")
    return Probed(toolchain, version, stdlib)


def probe_all() -> list[Probed]:
    return [probe(each) for each in TOOLCHAINS]
