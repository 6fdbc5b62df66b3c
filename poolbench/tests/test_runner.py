# SPDX-License-Identifier: BSL-1.0
import io
import json

import pytest

from poolbench.machine import Malloc
from poolbench.runner import Outcome, Progress, choose_drops, run_cell, run_rounds
from poolbench.tests.support import cell, program

GOOD = {"ns_per_op": 2.0, "ops": 10, "malloc": "glibc", "operation": "one op"}


def printing(path, line):
    return program(path, f"print({json.dumps(line)!r})")


def test_a_good_run_gives_its_sample(tmp_path):
    exe = printing(tmp_path / "bench", GOOD)
    assert run_cell(cell(path=exe), 10) == (GOOD, "")


def test_a_sample_on_another_malloc_than_asked_is_a_failure(tmp_path):
    exe = printing(tmp_path / "bench", GOOD)
    sample, failure = run_cell(cell(path=exe, malloc=Malloc("jemalloc", "/nowhere/libjemalloc.so.2")), 10)
    assert sample is None
    assert failure == "ran on glibc, not on jemalloc"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("import sys; sys.exit('out of memory')", "exit status 1: out of memory"),
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import time; time.sleep(60)", "no result within"),
        ("pass", "printed no result"),
        ("print('not json')", "printed no result"),
        ("print('{}')", "printed no result"),
        ("print('{\"ns_per_op\": 0, \"ops\": 1}')", "without time or operations"),
    ],
)  # fmt: skip
def test_a_run_that_goes_wrong_says_how(tmp_path, body, expected):
    sample, failure = run_cell(cell(path=program(tmp_path / "bench", body)), 1)
    assert sample is None
    assert expected in failure


def test_a_missing_executable_is_a_failed_cell(tmp_path):
    sample, failure = run_cell(cell(path=tmp_path / "absent"), 1)
    assert sample is None
    assert "cannot be run" in failure


def run_all(cells, rounds, budget=1000.0):
    outcomes, lines = [], []
    run_rounds(cells, rounds, 5, budget, lines.append, Progress(len(cells) * rounds, io.StringIO()), outcomes)
    return outcomes, lines


def test_cells_take_turns_and_a_failed_one_does_not_stop_the_rest(tmp_path):
    good = cell("good", path=printing(tmp_path / "good", GOOD))
    bad = cell("bad", path=program(tmp_path / "bad", "raise SystemExit(3)"))
    last = cell("last", path=printing(tmp_path / "last", {**GOOD, "contender": "last"}))
    outcomes, lines = run_all([good, bad, last], 3)
    assert [len(o.samples) for o in outcomes] == [3, 0, 3]
    assert [len(o.failures) for o in outcomes] == [0, 1, 0]
    assert [line["round"] for line in lines] == [0, 0, 0, 1, 1, 2, 2]


def timed(seconds, optional):
    return Outcome(cell(optional=optional), seconds=[seconds])


def test_nothing_is_dropped_while_the_rounds_fit():
    assert choose_drops([timed(5, True), timed(5, False)], 20, 2) == []


def test_the_slowest_optional_cells_are_dropped_and_no_more_than_needed():
    outcomes = [timed(1, True), timed(9, False), timed(4, True), timed(2, True)]
    assert choose_drops(outcomes, 26, 2) == [outcomes[2]]
    assert choose_drops(outcomes, 1, 2) == [outcomes[2], outcomes[3], outcomes[0]]


def test_a_session_out_of_time_still_measures_what_is_not_optional(tmp_path):
    exe = printing(tmp_path / "bench", GOOD)
    outcomes, _ = run_all([cell("must", path=exe), cell("may", path=exe, optional=True)], 3, budget=0.0)
    assert [len(o.samples) for o in outcomes] == [3, 1]
    assert [o.dropped for o in outcomes] == [False, True]


def test_progress_into_a_pipe_is_plain_lines_and_counts_to_the_end():
    stream, now = io.StringIO(), [0.0]
    progress = Progress(3, stream, lambda: now[0])
    for _ in range(3):
        now[0] += 10
        progress.step("cell")
    progress.close()
    assert stream.getvalue().splitlines() == [
        "[1/3] about 20 s left: cell",
        "[2/3] about 10 s left: cell",
        "[3/3] about 0 s left: cell",
    ]
