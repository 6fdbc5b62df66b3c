# SPDX-License-Identifier: BSL-1.0
import io
from dataclasses import replace

import pytest

from poolbench.measure.progress import Progress
from poolbench.measure.stopping import Rule, State, contested, next_round, pair, seconds_left
from poolbench.tests import support


def state(name, runs, cost=1.0, values=None):
    made = State(support.cell(name), "ns_per_op")
    for i in range(runs):
        made.add({"ns_per_op": values[i % len(values)] if values else 2.0}, cost)
    return made


WIDE = [1.0, 2.0, 4.0]


def test_every_cell_gets_the_least_count_even_when_the_budget_is_spent():
    cells = [state("a", runs=4), state("b", runs=4)]
    assert len(next_round(cells, Rule(least=5, budget=0.1), 1)) == 2


def test_a_round_that_was_interrupted_is_completed_first():
    done, open_ = state("a", runs=3), state("b", runs=2)
    assert next_round([done, open_], Rule(least=5), 1) == [open_]


def test_a_narrow_interval_ends_a_cell_and_a_wide_one_goes_on():
    narrow, wide = state("a", runs=5), state("b", runs=5, values=WIDE)
    assert next_round([narrow, wide], Rule(least=5), 1) == [wide]


def test_when_the_budget_does_not_suffice_the_quickest_cells_go_on():
    cells = [state("slow", 5, 3.0, WIDE), state("quick", 5, 0.5, WIDE), state("middle", 5, 1.0, WIDE)]
    spent = 5 * 4.5
    chosen = next_round(cells, Rule(least=5, budget=spent + 2.0), 1)
    assert {s.cell.contender for s in chosen} == {"quick", "middle"}
    assert next_round(cells, Rule(least=5, budget=spent + 0.1), 1) == []


def test_the_cells_that_decide_a_row_of_the_summary_go_on_before_quicker_ones():
    ours, rival, slow, other = (state(name, 5, values=WIDE) for name in ("ours", "rival", "slow", "other"))
    ours.is_ours = True
    ours.headline = rival.headline = slow.headline = "burst"
    slow.values = [3.0, 6.0, 9.0]
    other.seconds = [0.1] * 5
    rule = Rule(least=5, most=6, budget=15.5 + 2.5)
    chosen = next_round([ours, rival, slow, other], rule, 1)
    assert sorted(s.cell.contender for s in chosen) == ["ours", "rival"]
    for each in chosen:
        each.add({"ns_per_op": 2.0}, 1.0)
    assert next_round([ours, rival, slow, other], rule, 1) == [other]


def of_a_row(name, runs, values):
    made = state(name, runs, values=values)
    made.headline, made.is_ours = "burst", name == "ours"
    return made


def test_a_malloc_with_one_quick_run_may_be_the_fastest():
    ours, best, two_modes = (
        of_a_row(*how) for how in (("ours", 3, WIDE), ("best", 3, [2.0]), ("two_modes", 3, [6.0, 6.0, 2.4]))
    )
    slow = of_a_row("slow", 3, [6.0, 6.0, 2.6])
    assert slow not in contested([ours, best, two_modes, slow])
    assert two_modes in contested([ours, best, two_modes, slow])


def test_a_cell_that_decides_a_row_is_not_settled_by_a_few_runs_that_agree():
    ours, best, other = of_a_row("ours", 9, [2.0]), of_a_row("best", 9, [2.0]), state("other", 9)
    rule = Rule(least=3, most=40, budget=100)
    assert {s.cell.contender for s in next_round([ours, best, other], rule, 1)} == {"ours", "best"}
    for each in (ours, best):
        each.add({"ns_per_op": 2.0}, 1.0)
    assert next_round([ours, best, other], rule, 1) == []
    assert next_round([ours, best, other], Rule(least=3, most=5, budget=100), 1) == []


def test_a_row_gets_the_runs_that_a_verdict_needs_also_when_the_time_is_used_up():
    ours, best, other = of_a_row("ours", 3, WIDE), of_a_row("best", 3, WIDE), state("other", 3, values=WIDE)
    rule = Rule(least=3, most=40, budget=0)
    assert {s.cell.contender for s in next_round([ours, best, other], rule, 1)} == {"ours", "best"}
    ours.runs = best.runs = 4
    assert next_round([ours, best, other], rule, 1) == []


def side(name, runs, values):
    made = state("x", runs, values=values)
    return replace(made, cell=replace(made.cell, toolchain=name))


def test_two_executables_are_settled_by_their_quotients_together():
    old, new = side("old", 6, WIDE), side("new", 6, WIDE)
    pair([old, new])
    assert next_round([old, new], Rule(least=5), 1) == []  # what both met is no spread of the quotient
    old, new = side("old", 6, WIDE), side("new", 6, [2.0])
    pair([old, new])
    assert len(next_round([old, new], Rule(least=5), 1)) == 2


def test_a_pair_that_an_interruption_left_uneven_is_evened_and_one_that_failed_ends():
    old, new = side("old", 7, WIDE), side("new", 6, [2.0])
    pair([old, new])
    assert next_round([old, new], Rule(least=5), 1) == [new]
    new.failure = {"reason": "x"}
    assert next_round([old, new], Rule(least=9), 1) == []


def test_the_time_left_is_what_must_be_and_what_is_left_of_the_budget():
    cells = [state("a", runs=2, cost=2.0), state("b", runs=2, cost=1.0)]
    assert seconds_left(cells, Rule(least=5)) == pytest.approx(9)
    assert seconds_left(cells, Rule(least=5, budget=6 + 9 + 1)) == pytest.approx(10)
    assert seconds_left([state("a", 5)], Rule(least=5, budget=100)) == 0


def test_progress_into_a_pipe_is_plain_lines_now_and_then():
    stream, now = io.StringIO(), [0.0]
    progress = Progress(stream, lambda: now[0])
    for runs in range(4):
        progress.step(runs, 100 - now[0], failed=1, what="cell")
        now[0] += 6
    assert stream.getvalue() == "[2 runs, 1 failed, at most 1 min 28 s left] cell\n"
