# SPDX-License-Identifier: BSL-1.0
"""Small programs that are compiled when they are first needed, with the user's compiler, and kept."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from poolbench.errors import Failed
from poolbench.system.build import BUILDS, ROOT

CACHE = BUILDS / "native"
COMPILERS = ("c++", "g++", "clang++", "clang++-19")
TOLD_LINES = 40  # of what a compiler says


def compiler() -> str:
    """The user's: $CXX, else the usual ones."""
    for name in (os.environ.get("CXX"), *COMPILERS):
        if name and shutil.which(name):
            return name
    asked = ", ".join(COMPILERS)
    raise Failed(f"there is no C++ compiler ({asked}); Debian: apt install g++, or name one with $CXX")


def compiled(name: str, command: list[str], sources: Iterable[Path], say: Callable[[str], None]) -> Path:
    """The file that the command makes when `-o FILE` follows; compiled again when the command, the compiler or one of
    `sources` has changed. Raises Failed with what the compiler said."""
    digest = hashlib.sha256("\0".join(command).encode())
    of_compiler = Path(shutil.which(command[0]) or command[0]).stat()
    digest.update(f"{of_compiler.st_size} {of_compiler.st_mtime_ns}".encode())
    for source in sorted(sources):
        digest.update(f"\0{source}\0".encode() + source.read_bytes())
    target = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    if target.is_file():
        return target
    say(f"compiling {name} with {command[0]}")
    CACHE.mkdir(parents=True, exist_ok=True)
    # Under a name of its own until it is whole: another poolbench may be at it.
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    done = subprocess.run(
        [*command, "-o", str(partial)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        partial.unlink(missing_ok=True)
        said = "\n".join((done.stdout + done.stderr).splitlines()[:TOLD_LINES])
        raise Failed(f"{name} does not compile:\n{said}\nthe command: {' '.join(command)}")
    partial.replace(target)
    for old in CACHE.glob(f"{name}-" + "[0-9a-f]" * 16):  # of sources that are no longer
        if old != target:
            old.unlink(missing_ok=True)
    return target


def sources_below(*places: Path) -> list[Path]:
    return [p for place in places for p in ([place] if place.is_file() else sorted(place.rglob("*.hpp")))]


PROFILE = Path(__file__).resolve().parent / "cpp"


def recorder(say: Callable[[str], None]) -> Path:
    """The library that `poolbench profile` preloads. It needs no C++ library, so that it fits any program."""
    command = [compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions"]
    command += ["-fno-rtti", "-fno-plt", "-fno-stack-protector", f"-I{PROFILE}"]
    command += [str(PROFILE / "recorder.cpp")]
    command += ["-nodefaultlibs", "-Wl,-z,now", "-lgcc_s", "-lc", "-lgcc"]
    return compiled("recorder", command, [PROFILE / "recorder.cpp", *sources_below(PROFILE)], say)


def replayer(say: Callable[[str], None]) -> Path:
    environment = ROOT / "bench" / "support" / "environment.cpp"
    command = [compiler(), "-std=c++20", "-O3", "-DNDEBUG", f"-I{ROOT / 'include'}", f"-I{ROOT / 'bench'}"]
    command += ['-DPOOLED_BENCH_OPTIMISATION="-O3"', '-DPOOLED_BENCH_FLAGS="-O3"']
    command += [str(PROFILE / "replay.cpp"), str(environment), "-pthread"]
    return compiled(
        "replay", command, [PROFILE / "replay.cpp", environment, *sources_below(ROOT / "include" / "pooled")], say
    )


def pooled_new(say: Callable[[str], None]) -> Path:
    """libpooled-new.so: operator new and delete on the default pool, to preload."""
    source, include = ROOT / "src" / "new_delete.cpp", ROOT / "include"
    command = [compiler(), "-std=c++20", "-O3", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{include}"]
    command += ["-fvisibility-inlines-hidden", "-ftls-model=initial-exec", "-pthread", "-Wl,-z,nodelete"]
    command += ["-DPOOLED_PRELOADED=1", "-DPOOLED_BUILDS_LIBRARY=", str(source)]
    return compiled("pooled-new", command, [source, *sources_below(include / "pooled")], say)
