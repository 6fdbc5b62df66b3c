# SPDX-License-Identifier: BSL-1.0
import io
import random

import pytest

from poolbench.measure.progress import Progress, duration
from poolbench.measure.stopping import Rule, State, next_round, seconds_left
from poolbench.tests import support

NARROW = {"ns_per_op": 2.0}


def state(name="x", runs=0, cost=1.0, values=None, failed=False):
    made = State(support.cell(name), "ns_per_op")
    for i in range(runs):
        made.add({"ns_per_op": values[i % len(values)] if values else 2.0}, cost)
    made.failure = {"reason": "x"} if failed else None
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


def test_a_wide_interval_ends_at_the_most_samples():
    assert next_round([state(runs=9, values=WIDE)], Rule(least=5, most=9), 1) == []


def test_a_narrow_interval_goes_on_until_a_comparison_could_find_something():
    assert len(next_round([state(runs=5)], Rule(least=5, tell=8), 1)) == 1
    assert next_round([state(runs=8)], Rule(least=5, tell=8), 1) == []


def test_when_the_budget_does_not_suffice_the_quickest_cells_go_on():
    cells = [state("slow", 5, 3.0, WIDE), state("quick", 5, 0.5, WIDE), state("middle", 5, 1.0, WIDE)]
    spent = 5 * 4.5
    chosen = next_round(cells, Rule(least=5, budget=spent + 2.0), 1)
    assert {s.cell.contender for s in chosen} == {"quick", "middle"}
    assert next_round(cells, Rule(least=5, budget=spent + 0.1), 1) == []


def test_a_failed_cell_is_not_run_again():
    assert next_round([state(runs=2, failed=True)], Rule(least=5), 1) == []


def test_the_order_is_another_in_each_round_and_the_same_in_each_session():
    cells = [state(str(i)) for i in range(20)]
    first = [s.cell for s in next_round(cells, Rule(), 1)]
    assert first == [s.cell for s in next_round(cells, Rule(), 1)] != [s.cell for s in cells]
    for each in cells:
        each.add(NARROW, 1.0)
    assert [s.cell for s in next_round(cells, Rule(), 1)] != first


def test_the_figure_that_a_variant_is_about_decides():
    memory = State(support.cell(), "bytes")
    rng = random.Random(1)
    for _ in range(5):
        memory.add({"ns_per_op": rng.random(), "figures": {"bytes": 64.0}}, 1.0)
    assert next_round([memory], Rule(least=5), 1) == []


def test_the_time_left_counts_what_must_be_and_what_the_budget_allows():
    cells = [state("a", runs=2, cost=2.0), state("b", runs=2, cost=1.0)]
    assert seconds_left(cells, Rule(least=5)) == pytest.approx(9)
    assert seconds_left(cells, Rule(least=5, tell=7)) == pytest.approx(9 + 6)
    assert seconds_left(cells, Rule(least=5, tell=7, budget=6 + 9 + 1)) == pytest.approx(10)


def test_progress_into_a_pipe_is_plain_lines_now_and_then():
    stream, now = io.StringIO(), [0.0]
    progress = Progress(stream, lambda: now[0])
    for runs in range(4):
        progress.step(runs, 100 - now[0], failed=1, what="cell")
        now[0] += 6
    progress.close()
    assert stream.getvalue() == "[2 runs, 1 failed, about 1 min 28 s left] cell\n"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (65, "1 min 05 s"), (3600 * 2 + 61, "2 h 01 min")])
def test_durations_are_words(seconds, text):
    assert duration(seconds) == text
