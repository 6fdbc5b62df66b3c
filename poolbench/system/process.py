# SPDX-License-Identifier: BSL-1.0
"""One command, run to its end or its limit, with nothing left behind.

The command gets a process group of its own, so that a Ctrl-C reaches the driver alone and the driver ends the whole
group, children of the command included. Should the driver itself be killed, the kernel kills the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass

KEPT_BYTES = 64 * 1024  # of each stream: a result is one line at the end
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)  # loaded before the fork: the child may not


@dataclass(frozen=True)
class Ended:
    status: int | None  # as subprocess has it: negative for a signal; None: the limit was reached
    stdout: str
    stderr: str
    seconds: float


class _Tail:
    """The last bytes of a stream."""

    def __init__(self):
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        self._bytes += data
        del self._bytes[:-KEPT_BYTES]

    def text(self) -> str:
        return self._bytes.decode(errors="replace")


def _die_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_group(process: subprocess.Popen, how: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)


def _drain(selector: selectors.BaseSelector, tails: dict[int, _Tail], descriptor: int) -> bool:
    """Reads what is there; False at the end of the stream."""
    try:
        data = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return True
    if not data:
        selector.unregister(descriptor)
        return False
    tails[descriptor].feed(data)
    return True


def run(command: list[str], environment: dict[str, str], limit: float) -> Ended:
    """Raises OSError when the command cannot be started."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - the driver has one thread
    )
    out, err = process.stdout.fileno(), process.stderr.fileno()
    tails = {out: _Tail(), err: _Tail()}
    exited = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            for descriptor in (out, err):
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ)
            # The process, not only its pipes: a grandchild may hold those open for ever.
            selector.register(exited, selectors.EVENT_READ)
            ended = False
            while not ended and (left := started + limit - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if key.fd == exited:
                        ended = True
                    else:
                        _drain(selector, tails, key.fd)
            seconds = time.monotonic() - started
            status = process.wait() if ended else None
            end_group(process)
            for descriptor in (out, err):
                # What was written before the end is in the pipe already: no more than a pipe holds.
                if descriptor in selector.get_map():
                    _drain(selector, tails, descriptor)
        return Ended(status, tails[out].text(), tails[err].text(), seconds)
    finally:
        os.close(exited)
        if process.returncode is None:  # interrupted, or at its limit
            end_group(process)
            process.wait()
        process.stdout.close()
        process.stderr.close()
