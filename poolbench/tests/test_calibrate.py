# SPDX-License-Identifier: BSL-1.0
"""How long a run of something never measured before is made."""

import pytest

from poolbench.measure import calibrate
from poolbench.measure.sample import Result
from poolbench.system.mallocs import Malloc
from poolbench.tests import support


@pytest.fixture
def calibrated(monkeypatch):
    """Of a workload whose operation takes so many ns, ten million of them at scale 1 and `least` at any scale."""

    def go(ns, least=1):
        asked = []

        def take(cell, bench, malloc, limit):
            asked.append(cell.scale)
            return Result(0.1, sample={"ns_per_op": ns, "ops": max(least, round(1e7 * cell.scale))})

        monkeypatch.setattr(calibrate, "take", take)
        cells = [support.cell("pooled"), support.cell("make_shared")]
        found = calibrate.calibrated(cells, None, Malloc("glibc"), 0.1, 60)
        assert found[0].scale == found[1].scale
        return found[0].scale, len(asked)

    return go


def test_a_run_takes_as_long_as_wanted(calibrated):
    assert calibrated(100.0) == (0.1, 1)
    assert calibrated(1e6) == (1e-5, 1)


def test_an_operation_that_takes_nearly_no_time_is_tried_again_at_a_larger_scale(calibrated):
    scale, tries = calibrated(0.01)
    assert scale == calibrate.MOST_SCALE and tries == 2


def test_a_first_run_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(calibrate, "take", lambda *_: Result(0.0, failure={"reason": "out of memory"}))
    with pytest.raises(calibrate.CannotRun, match="w loop pooled on glibc gcc failed: out of memory"):
        calibrate.calibrated([support.cell("pooled")], None, Malloc("glibc"), 0.1, 60)
