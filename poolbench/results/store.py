# SPDX-License-Identifier: BSL-1.0
"""Appending to a results file. One run at a time holds it; each line is written at once and whole, and what a killed
run or a full disk left of its last line is cut off before the next one is written."""

import contextlib
import fcntl
import json
import os
import stat
from pathlib import Path

from poolbench.errors import BadInput, Failed

BEGINNING = b'{"record"'


class Store(contextlib.AbstractContextManager):
    def __init__(self, path: Path):
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise Failed(f"{path} cannot be written: {error.strerror}") from error
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise Failed(f"{path} is not a file")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.pread(self._file, len(BEGINNING), 0) not in (b"", BEGINNING):
                raise BadInput(f"{path} is no results file: it is left as it is")
            text = path.read_bytes()
            if not text.endswith(b"\n"):  # half a line
                os.ftruncate(self._file, text.rfind(b"\n") + 1)
        except BlockingIOError as error:
            self.close()
            raise BadInput(f"another run is writing to {path}") from error
        except BaseException:
            self.close()
            raise

    def append(self, record: dict) -> None:
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        before = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
            raise Failed(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        os.close(self._file)

    def __exit__(self, *_) -> None:
        self.close()


def check_writable(path: Path) -> None:
    """Raises what a run on this file would raise, before anything is measured; leaves things as they are."""
    there = path.exists()
    Store(path).close()
    if not there:
        path.unlink()
