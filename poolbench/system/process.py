# SPDX-License-Identifier: BSL-1.0
"""One command, run to its end or its limit, with nothing left behind.

The command gets a process group of its own, so that a Ctrl-C reaches the driver alone and the driver ends the whole
group, children of the command included. Should the driver itself be killed, the kernel kills the command.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import IO

KEPT_BYTES = 64 * 1024  # of each stream: a result is one line at the end
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)  # loaded before the fork: the child may not


@dataclass(frozen=True)
class Ended:
    status: int | None  # as subprocess has it: negative for a signal; None: the limit was reached
    stdout: str
    stderr: str
    seconds: float


def end_group(process: subprocess.Popen, how: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)


def _tail(file: IO[bytes]) -> str:
    """The last bytes of a stream."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - KEPT_BYTES))
    return file.read().decode(errors="replace")


def run(command: list[str], environment: dict[str, str], limit: float) -> Ended:
    """Raises OSError when the command cannot be started. The streams go to files, for a grandchild may hold pipes open
    for ever."""
    started, late = time.monotonic(), []
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509 - the driver has one thread
        )  # fmt: skip

        def at_limit(*_) -> None:
            late.append(True)
            end_group(process)

        # Not wait(limit): that sleeps up to 50 ms at a time, a sixth of what `make bench` took.
        signal.signal(signal.SIGALRM, at_limit)
        try:
            signal.setitimer(signal.ITIMER_REAL, limit)
            status = process.wait()
        finally:  # also when interrupted
            signal.setitimer(signal.ITIMER_REAL, 0)
            seconds = time.monotonic() - started
            end_group(process)
            process.wait()
        return Ended(None if late else status, _tail(out), _tail(err), seconds)


def output(
    command: list[str], text: str = "", environment: dict[str, str] | None = None, seconds: float = 60
) -> str | None:
    """Standard output, or None when the command failed."""
    settings = {"input": text, "env": environment, "timeout": seconds, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, check=False, **settings)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
