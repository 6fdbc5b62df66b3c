# SPDX-License-Identifier: BSL-1.0
"""What `poolbench try` says of figures that are known, and how long it makes a run."""

import pytest

from poolbench.analysis import advice, estimate
from poolbench.errors import Failed
from poolbench.measure import calibrate
from poolbench.measure.sample import Result
from poolbench.system.mallocs import Malloc
from poolbench.tests import support
from poolbench.tests.test_analysis import results, times


def estimated(tmp_path, **ns):
    return estimate.estimates(results(tmp_path, times(**ns)))


def chosen(tmp_path, **ns):
    (choice,) = advice.advise(estimated(tmp_path, **ns))
    return choice


def test_a_more_special_handle_must_be_surely_faster(tmp_path):
    assert chosen(tmp_path, make_shared=40.0, pooled=10.0, pooled_rc=9.7).take == "pooled"
    assert chosen(tmp_path, make_shared=40.0, pooled=10.0, pooled_rc=7.0).take == "pooled_rc"


def test_without_a_sure_gain_the_standards_pointer_stays(tmp_path):
    choice = chosen(tmp_path, make_shared=10.0, pooled=9.8)
    assert not choice.worth_it
    assert "keep the standard's pointer" in advice.in_words(choice)[0]


def test_a_malloc_that_does_as_well_is_named(tmp_path):
    choice = chosen(tmp_path, make_shared=40.0, make_shared_on_mimalloc=10.0, pooled=10.0)
    assert choice.best_malloc == "mimalloc"
    assert "is shown to be as fast as the standard's pointer on mimalloc" in advice.in_words(choice)[2]
    assert choice.malloc_is_enough


def test_a_sure_loss_is_called_that_and_the_malloc_that_gains_is_named(tmp_path):
    """What was measured at 100,000 bytes once: the pool far behind glibc, and tcmalloc far ahead of it."""
    choice = chosen(tmp_path, make_shared=1000.0, make_shared_on_tcmalloc=30.0, pooled=6000.0)
    said = advice.in_words(choice)
    assert "0.17 times" in said[0] and said[0].endswith("a significant loss.")
    assert said[1].startswith("  Preload tcmalloc: the same pointer is 33.")


# --- how long a run of something never measured before is made


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
    with pytest.raises(Failed, match="w loop pooled on glibc gcc failed: out of memory"):
        calibrate.calibrated([support.cell("pooled")], None, Malloc("glibc"), 0.1, 60)
