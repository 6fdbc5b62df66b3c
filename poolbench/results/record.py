# SPDX-License-Identifier: BSL-1.0
"""The lines of a results file, version 2. Each is a JSON object whose `record` says what it is.

    session   what is measured, on which machine, with which programs; again whenever the run is taken up
    sample    one process run of one cell
    failure   a run that went wrong, with its output; the cell is not run again
    finished  nothing is left to do

Each line stands for itself: a sample names its compiler, flags, malloc, commit, machine and time.
"""

import datetime

SCHEMA = 2


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def line(record: str, /, **fields) -> dict:
    return {"record": record, "schema": SCHEMA, "time": now(), **fields}
