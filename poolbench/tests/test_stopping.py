# SPDX-License-Identifier: BSL-1.0
import io
import random
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


def of_a_row(name, runs, values, row="burst", cost=1.0):
    made = state(name, runs, cost, values)
    made.headline, made.is_ours = row, name == "ours"
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


def names(chosen):
    return sorted(each.cell.contender for each in chosen)


ABOUT_2 = [1.9, 2.0, 2.1, 1.95, 2.05]
MUCH = Rule(least=3, most=400, budget=1000)


def test_a_row_goes_on_until_its_interval_is_twice_as_narrow_as_the_verdict_needs():
    near = [of_a_row("ours", 10, ABOUT_2), of_a_row("best", 10, [1.06 * x for x in ABOUT_2])]
    assert names(next_round(near, MUCH, 1)) == ["best", "ours"]
    far = [of_a_row("ours", 10, ABOUT_2), of_a_row("best", 10, [3 * x for x in ABOUT_2])]
    assert contested(far) == far and next_round(far, replace(MUCH, precision=1), 1) == []


def test_it_makes_no_difference_which_side_is_faster():
    for factor in (1.02, 1.08, 1.2, 1.5):
        other = [factor * x for x in ABOUT_2]
        there = [of_a_row("ours", 10, ABOUT_2), of_a_row("best", 10, other)]
        back = [of_a_row("ours", 10, other), of_a_row("best", 10, ABOUT_2)]
        assert names(next_round(there, MUCH, 1)) == names(next_round(back, MUCH, 1))


def test_a_malloc_whose_interval_lies_above_that_of_the_fastest_needs_no_more_runs():
    row = [of_a_row("ours", 10, ABOUT_2), of_a_row("best", 10, ABOUT_2), of_a_row("slower", 10, [2.3, 2.4])]
    assert names(next_round(row, MUCH, 1)) == ["best", "ours"]
    few = [of_a_row("ours", 3, ABOUT_2), of_a_row("best", 3, ABOUT_2), of_a_row("slower", 3, [2.3, 2.4])]
    assert names(contested(few)) == ["best", "ours", "slower"]


def test_when_the_time_does_not_suffice_the_rows_go_on_that_take_least():
    wide = [1.0, 2.0, 2.2, 2.4]
    quick, slow = ([of_a_row(name, 12, wide, row, cost) for name in ("ours", "best")]
                   for row, cost in (("quick", 0.01), ("slow", 1.0)))  # fmt: skip
    spent = 24.24
    assert next_round(slow + quick, replace(MUCH, budget=spent + 1.9), 1) and all(
        each.headline == "quick" for each in next_round(slow + quick, replace(MUCH, budget=spent + 5), 1)
    )
    assert {each.headline for each in next_round(slow + quick, replace(MUCH, budget=1e6), 1)} == {"quick", "slow"}


def test_both_sides_of_a_quotient_are_run_in_the_same_rounds():
    rng = random.Random(1)
    row = [of_a_row(name, 3, ABOUT_2) for name in ("ours", "best")]
    while chosen := next_round(row, replace(MUCH, budget=200), 1):
        assert names(chosen) == ["best", "ours"]
        for each in chosen:
            each.add({"ns_per_op": rng.uniform(1, 3)}, 1.0)
    assert row[0].runs == row[1].runs > 10


def test_runs_while_the_processors_were_further_apart_decide_no_row():
    def moved(name, values):
        made = of_a_row(name, 0, None)
        for value, word in values:
            made.add({"ns_per_op": value, "figures": {"hand_over_ns": word}}, 1.0)
        return made

    near, far = [(2.0, 27.0)] * 10, [(9.0, 170.0)] * 4
    row = [moved("ours", near + far), moved("best", [(3.0, 27.0)] * 10 + far)]
    assert next_round(row, replace(MUCH, precision=10), 1) == []


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
