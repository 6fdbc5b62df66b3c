# SPDX-License-Identifier: BSL-1.0
import fcntl
from pathlib import Path

import pytest

from poolbench.plan import description
from poolbench.report import page
from poolbench.results import find
from poolbench.results.read import Results, read
from poolbench.system import hardware, mallocs
from poolbench.tests import support


@pytest.fixture(autouse=True)
def a_quiet_machine_with_glibc_alone(monkeypatch, tmp_path, request):
    """Tests do not depend on what is installed, and leave no results in the checkout."""
    if request.node.get_closest_marker("real_machine"):
        return
    monkeypatch.setattr(mallocs, "find", lambda files=None: ([mallocs.Malloc("glibc", version="2.36")], {}))
    monkeypatch.setattr(hardware, "busy_share", lambda: 0.0)
    monkeypatch.setattr(find, "DIRECTORY", tmp_path / "results")


@pytest.fixture(scope="session")
def quick_report(tmp_path_factory, request) -> tuple[Results, Path]:
    """A whole quick run, and its page. It takes seconds to draw: all workers share it."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # the worker's directory lies in that of the run
        shared = shared.parent
    results, path = shared / "quick.jsonl", shared / "quick.html"
    with (shared / "quick.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not path.exists():
            page.write(path, page.render(read(support.quick_results(results)), description.load()))
    return read(results), path
