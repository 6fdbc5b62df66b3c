# SPDX-License-Identifier: BSL-1.0
"""Runs far from the others, and measuring on chosen processors."""

import os

import pytest

from poolbench.analysis import outliers
from poolbench.results.read import read
from poolbench.system import affinity
from poolbench.tests import support
from poolbench.tests.test_run import run  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([10, 10.1, 9.9, 10, 30], [30]),
        ([10, 10.1, 9.9, 10, 2], [2]),
        ([10, 10.1, 9.9, 10, 10.5], []),  # nearer than a tenth
        ([10, 20, 30, 40, 50], []),  # wide, but none is far from the others
        ([10, 10, 10, 30], []),  # too few to say
    ],
)
def test_a_run_beyond_the_outer_fence_is_an_outlier(values, far):
    assert outliers.far_out(values) == far


def test_the_cells_that_have_such_runs_are_counted_and_the_worst_is_named(tmp_path):
    values = {support.cell("pooled"): [5, 5, 5, 5, 20], support.cell("make_shared"): [9, 9, 9, 9, 9]}
    found = outliers.find(read(support.results_file(tmp_path / "r.jsonl", values)), {})
    assert found == {support.cell("pooled"): [4.0]}
    said = outliers.in_words(found, 2)
    assert said.startswith("1 of 2 cells have runs far outside the others, up to 4.0 times the median (w loop pooled")
    assert outliers.in_words({}, 2) == ""


def test_a_run_is_pinned_says_so_and_leaves_this_process_as_it_was(run):  # noqa: F811
    before = os.sched_getaffinity(0)
    one = min(before)
    result = run("--pin", one)
    assert result.exit_code == 0, result.stderr
    found = read(result.path)
    assert found.session["pinned"] == [one] and f"pinned to processor {one}" in found.origin()
    assert os.sched_getaffinity(0) == before


def test_what_is_started_while_pinned_runs_there_alone():
    one = min(os.sched_getaffinity(0))
    with affinity.pinned((one,)):
        assert os.sched_getaffinity(0) == {one}
    with affinity.pinned(()):
        assert one in os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "--pin takes processors"),
        ("1-", "--pin takes"),
        ("99999", "may not run on processor 99999"),
        ("3-2", "no processor"),
    ],
)
def test_processors_that_can_not_be_are_refused(run, text, message):  # noqa: F811
    result = run("--pin", text)
    assert result.exit_code == 2 and message in result.stderr
