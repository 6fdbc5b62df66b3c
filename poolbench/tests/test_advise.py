# SPDX-License-Identifier: BSL-1.0
"""`poolbench advise`: what it says of figures that are known, and the command on a stand-in."""

import re

import pytest

from poolbench.analysis import advice, estimate
from poolbench.errors import Failed
from poolbench.measure import calibrate
from poolbench.measure.sample import Result
from poolbench.results.read import read
from poolbench.system import hardware
from poolbench.system.mallocs import Malloc
from poolbench.tests import support
from poolbench.tests.support import invoke
from poolbench.tests.test_analysis import results, times

SHAPE = ["--size", "200", "--threads", "2", "--live", "1000", "--pattern", "churn"]


def advise(tmp_path, *more, failing="", workload="shape"):
    bench = support.fake_trial(tmp_path, workload, ["burst", "churn", "handoff"], [200], failing)
    words = ["advise", "--bin", f"gcc={bench}", "--budget", "0.001", *(more or SHAPE)]
    return invoke(*words)


def test_it_says_what_to_take_and_what_that_gains(tmp_path):
    result = advise(tmp_path)
    assert result.exit_code == 0, result.stderr
    assert "1,000 objects of 200 bytes, 2 threads, churn" in result.stdout
    assert "5 cells, 5 runs of each at least\n" in result.stderr  # and no file, for it is not kept
    assert "Objects that are shared between owners: take pooled::make_shared<T>(...)." in result.stdout
    assert "Objects that have one owner at a time: take pooled::make_unique<T>(...)." in result.stdout
    gain = re.search(r"as the standard's pointer on glibc's malloc, and saves ([0-9.]+) ns", result.stdout)
    assert gain and float(gain[1]) == pytest.approx(30.4, rel=0.04), result.stdout  # 40 - 10, each up to 2.6 % more


def test_the_results_can_be_kept(tmp_path):
    kept = tmp_path / "kept.jsonl"
    assert advise(tmp_path, *SHAPE, "--output", kept).exit_code == 0
    assert len(read(kept).cells()) == 5
    assert advise(tmp_path, *SHAPE, "--output", kept).exit_code == 2


def test_a_failed_cell_is_told_and_the_rest_is_judged(tmp_path):
    result = advise(tmp_path, failing="pooled_rc")
    assert result.exit_code == 1
    assert "FAILED: shape churn pooled_rc" in result.stderr
    assert "take pooled::make_shared" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "0", "--threads", "2", "--live", "1000", "--pattern", "churn"], "--size"),
        (["--size", "200", "--threads", "3", "--live", "1000", "--pattern", "handoff"], "must be even, not 3"),
        (["--size", "200", "--threads", "4", "--live", "3", "--pattern", "churn"], "less than an object for each"),
        (["--size", "200", "--threads", "4", "--live", "9", "--pattern", "rain"], "--pattern"),
        (["--size", "200"], "Missing option"),
        (["--size", "48,x", "--threads", "1", "--live", "9", "--pattern", "churn"], "is no size"),
        (["--size", "48,64", "--threads", "1", "--live", "9", "--pattern", "list"], "a list is of one size"),
        (["--size", "1000000", "--threads", "1", "--live", "1000000", "--pattern", "burst"], "half of this machine's"),
    ],
)
def test_a_shape_that_can_not_be_is_refused(tmp_path, monkeypatch, words, message):
    usual = hardware.describe()
    monkeypatch.setattr(hardware, "describe", lambda: {**usual, "memory_mib": 1024})
    result = advise(tmp_path, *words)
    assert result.exit_code == 2
    assert message in result.stderr


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


def further(tmp_path, **ns):
    return advice.further(estimated(tmp_path, **ns))


def test_reserve_and_object_pools_are_told_when_they_surely_gain(tmp_path):
    said = further(tmp_path, make_shared=90.0, pooled=40.0, pooled_reserved=20.0, pooled_objects=39.5)
    assert len(said) == 1 and said[0].startswith("Call reserve<T>(n) before: creating the first objects is 2.0")
    (said,) = further(tmp_path, make_shared=90.0, pooled=40.0, pooled_reserved=40.0, pooled_objects=10.0)
    assert "object_pool<T>: acquiring one is 4.0" in said


def test_a_malloc_that_is_good_enough_is_called_that(tmp_path):
    (said,) = further(tmp_path, make_shared=10.0, pooled=10.0)
    assert said.startswith("The malloc is good enough for this")
    (said,) = further(tmp_path, make_shared=40.0, make_shared_on_mimalloc=10.0, pooled=10.0)
    assert said.startswith("The malloc mimalloc is good enough for this")
    assert further(tmp_path, make_shared=40.0, make_shared_on_mimalloc=30.0, pooled=10.0) == []


def test_a_mix_of_sizes_is_one_shape(tmp_path):
    result = advise(tmp_path, "--size", "1500,48,200", "--threads", "1", "--live", "900", "--pattern", "churn")
    assert result.exit_code == 0, result.stderr
    assert "900 objects of 48, 200 and 1,500 bytes, 1 thread, churn" in result.stdout


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
