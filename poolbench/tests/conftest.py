# SPDX-License-Identifier: BSL-1.0
import pytest

from poolbench.results import find
from poolbench.system import hardware, mallocs


@pytest.fixture(autouse=True)
def a_quiet_machine_with_glibc_alone(monkeypatch, tmp_path, request):
    """Tests do not depend on what is installed, and leave no results in the checkout."""
    if request.node.get_closest_marker("real_machine"):
        return
    monkeypatch.setattr(mallocs, "find", lambda files=None: ([mallocs.Malloc("glibc", version="2.36")], {}))
    monkeypatch.setattr(hardware, "busy_share", lambda seconds=0.5: 0.0)
    monkeypatch.setattr(find, "DIRECTORY", tmp_path / "results")
