# SPDX-License-Identifier: BSL-1.0
"""Which results file is meant when the user names none."""

import contextlib
import datetime
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from poolbench import where
from poolbench.errors import BadInput
from poolbench.plan.cell import Cell
from poolbench.plan.program import Program
from poolbench.results.read import COMPRESSED, Results, read

DIRECTORY = where.results()


def new_path(profile: str, directory: Path) -> Path:
    """A name that no file has yet, and after those of sessions that began in the same second: "_" follows "."."""
    stem = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{profile}"
    path, number = directory / f"{stem}.jsonl", 1
    while path.exists():
        number += 1
        path = directory / f"{stem}_{number}.jsonl"
    return path


def _newest_first(directory: Path, wanted: Callable[[str], bool] = lambda name: True) -> Iterator[Results]:
    """Those that can be read, by name, which begins with the time; the committed ones are compressed."""
    found = [*directory.glob("*.jsonl"), *directory.glob(f"*.jsonl{COMPRESSED}")]
    for path in sorted((each for each in found if wanted(each.name)), key=lambda path: path.name, reverse=True):
        with contextlib.suppress(BadInput):
            yield read(path)


def unfinished(directory: Path, profile: str, selection: dict, programs: set[str]) -> Results | None:
    """The newest run of this profile, selection and these programs, when something is missing in it."""
    for results in _newest_first(directory):
        session = results.session
        if session.get("profile") == profile and session.get("selection") == selection:
            same = {program["sha256"] for program in session.get("programs", [])} == programs
            return results if same and not results.finished and results.path.suffix != COMPRESSED else None
    return None


def continued(path: Path, programs: Iterable[Program]) -> Results | None:
    """The results that a file already holds, None when it does not exist; raises BadInput for those of other
    executables."""
    if not path.exists():
        return None
    results, now = read(path), {(program.toolchain, program.sha256) for program in programs}
    there = {(p.get("toolchain"), p["sha256"]) for session in results.sessions for p in session.get("programs", [])}
    if there and not now <= there:
        raise BadInput(
            f"{path} was measured with other executables (another commit, compiler or checkout): "
            "its samples and new ones do not belong together; name another file"
        )
    return results


def _runs(profile: str, directory: Path) -> Iterator[Results]:
    """Of this profile, the newest first."""
    found = _newest_first(directory, lambda name: f"-{profile}" in name)
    return (run for run in found if run.samples and run.session.get("profile") == profile)


def before(results: Results) -> Results | None:
    """The run of the same profile on the same machine that came last before it, among the files beside it. A compressed
    file came with the checkout: it is no run of this user."""

    def began(run: Results) -> tuple[str, str]:
        return str(run.session.get("time", "")), run.path.name

    runs = _runs(str(results.session.get("profile")), results.path.parent)
    own = (run for run in runs if run.path.suffix != COMPRESSED)
    return next((run for run in own if run.machine() == results.machine() and began(run) < began(results)), None)


def costs(profile: str, cells: Iterable[Cell]) -> dict[Cell, float]:
    """Seconds that a process of each of the cells took in the last run of the profile, on whatever machine; of one that
    had another scale then, in proportion."""
    taken: dict[Cell, list[tuple[float, float]]] = {}
    for cell, sample in getattr(next(_runs(profile, DIRECTORY), None), "samples", []):
        taken.setdefault(replace(cell, scale=1.0), []).append((float(sample.get("wall_seconds", 0.0)), cell.scale))
    return {
        cell: statistics.mean(seconds * cell.scale / scale for seconds, scale in known)
        for cell in cells
        if (known := taken.get(replace(cell, scale=1.0)))
    }


def latest(directory: Path | None = None) -> Path:
    """The newest file that holds results, in DIRECTORY when none is given; smoke runs are not for reading, and those of
    `poolbench real` have tables of their own."""
    directory = directory or DIRECTORY
    for results in _newest_first(directory, lambda name: "-smoke" not in name and "-real." not in name):
        if results.samples:
            return results.path
    smoke = max(directory.glob("*-smoke.jsonl"), default=None)
    only = f" but smoke runs, whose times mean nothing (to see the newest, name it: {smoke})" if smoke else ""
    raise BadInput(f"there are no results in {directory} yet{only}: poolbench run makes some")
