# SPDX-License-Identifier: BSL-1.0
"""Runs the user's program with the recorder preloaded, and finds the traces."""

import os
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
from pathlib import Path

from poolbench.errors import BadInput

SHARED_MEMORY = Path("/dev/shm")
PT_INTERP = 3

CHUNK = 1 << 20  # bytes of a trace that are copied at once


def _is_dynamic(path: Path) -> bool | None:
    """None: no ELF file. Raises BadInput for one that this machine's recorder cannot be loaded into."""
    with path.open("rb") as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF":
            return None
        if head[4] != 2:
            raise BadInput(f"{path} is a 32-bit program; only 64-bit ones can be recorded")
        (offset,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        headers = file.read(size * count)
    return any(struct.unpack_from("<I", headers, at)[0] == PT_INTERP for at in range(0, len(headers) - 3, size))


def check(word: str) -> Path:
    """The program's file; raises BadInput."""
    found = shutil.which(word)
    if found is None:
        if Path(word).is_file():
            raise BadInput(f"{word} is not executable: chmod +x {word}")
        raise BadInput(f"there is no program {word}: give a path, as in ./program, or a name that is in PATH")
    path = Path(found)
    try:
        dynamic = _is_dynamic(path)
    except (OSError, struct.error) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if dynamic is False:
        raise BadInput(
            f"{path} is linked statically, so nothing can be preloaded into it: link it without -static to profile it"
        )
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) and os.geteuid() != path.stat().st_uid:
        raise BadInput(f"{path} runs as another user (setuid), for which nothing is preloaded: profile a plain copy")
    return path


def directory() -> tempfile.TemporaryDirectory:
    """Where traces are written: in memory, so that writing them costs the program no disk."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="poolbench-", dir=parent)


def run(command: list[str], recorder: Path, traces: Path, most_bytes: int, output=None) -> int:
    """Returns the program's exit status, negative for a signal. What asks poolbench to stop ends the program only: its
    trace is reported. A terminal sends Ctrl-C to both; other signals are passed on."""
    preloaded = " ".join(filter(None, (str(recorder), os.environ.get("LD_PRELOAD"))))
    settings = {"POOLBENCH_TRACE_DIRECTORY": str(traces), "POOLBENCH_TRACE_BYTES": str(most_bytes)}
    environment = {**os.environ, "LD_PRELOAD": preloaded, **settings}
    process = subprocess.Popen(command, env=environment, stdout=output)
    handlers = {signal.SIGINT: signal.SIG_IGN}
    handlers |= dict.fromkeys((signal.SIGTERM, signal.SIGHUP), lambda number, frame: process.send_signal(number))
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if process.poll() is None:
            process.kill()
            process.wait()


def processor_seconds(command: list[str], library: str) -> float | None:
    """Of one more run, with its children, on a library that is preloaded; None when it failed. It reads nothing, and
    what it writes is thrown away."""
    preloaded = " ".join(filter(None, (library, os.environ.get("LD_PRELOAD"))))
    environment = {**os.environ, "LD_PRELOAD": preloaded} if library else None
    nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen(command, env=environment, **nowhere)
    try:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    return usage.ru_utime + usage.ru_stime if status == 0 else None


def keep(trace: Path, used: int, to: Path) -> Path:
    """Copies the used part of a trace; returns the copy's path. Leaves no part of one on a full disk."""
    to.mkdir(parents=True, exist_ok=True)
    target = to / trace.name
    with trace.open("rb") as source, target.open("xb") as file:
        try:
            for at in range(0, used, CHUNK):
                file.write(source.read(min(CHUNK, used - at)))
            file.flush()
        except OSError as error:
            target.unlink()
            raise OSError(error.errno, error.strerror, str(target)) from error
    return target
