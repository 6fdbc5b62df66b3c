# SPDX-License-Identifier: BSL-1.0
import io
import threading

import pytest

from poolbench.measure.progress import Progress
from poolbench.measure.stopping import Rule, State, forecast, next_round, pair
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


def test_when_the_budget_does_not_suffice_the_quickest_cells_go_on():
    cells = [state("slow", 5, 3.0, WIDE), state("quick", 5, 0.5, WIDE), state("middle", 5, 1.0, WIDE)]
    spent = 5 * 4.5
    chosen = next_round(cells, Rule(least=5, budget=spent + 2.0), 1)
    assert {s.cell.contender for s in chosen} == {"quick", "middle"}
    assert next_round(cells, Rule(least=5, budget=spent + 0.1), 1) == []


def side(name, runs, values):
    made = State(support.cell("x", toolchain=name), "ns_per_op")
    for i in range(runs):
        made.add({"ns_per_op": values[i % len(values)]}, 1.0)
    return made


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


def test_a_failed_cell_is_not_run_again():
    assert next_round([state(runs=2, failed=True)], Rule(least=5), 1) == []


def test_the_order_is_another_in_each_round_and_the_same_in_each_session():
    cells = [state(str(i)) for i in range(20)]
    first = [s.cell for s in next_round(cells, Rule(), 1)]
    assert first == [s.cell for s in next_round(cells, Rule(), 1)] != [s.cell for s in cells]
    for each in cells:
        each.add(NARROW, 1.0)
    assert [s.cell for s in next_round(cells, Rule(), 1)] != first


def test_the_forecast_comes_to_nothing_only_when_nothing_is_left():
    """It said "0 s left" for two minutes, while cells with wide intervals went on."""
    rule, cells = Rule(least=5, most=15, budget=100), [state("a", 5, 1.0, WIDE), state("b", 5, 2.0, WIDE)]
    while chosen := next_round(cells, rule, 1):
        told, runs, seconds = forecast(cells, rule), 0, 0.0
        assert told.runs > 0 and told.seconds > 0
        copies = [state(s.cell.contender, s.runs, s.cost(), WIDE) for s in cells]
        while more := next_round(copies, rule, 1):
            for each in more:
                each.add({"ns_per_op": WIDE[each.runs % 3]}, each.cost())
                runs, seconds = runs + 1, seconds + each.cost()
        assert told.seconds == pytest.approx(seconds, abs=2)
        assert told.runs == pytest.approx(runs, abs=2)
        for each in chosen:
            each.add({"ns_per_op": WIDE[each.runs % 3]}, each.cost())
    assert forecast(cells, rule).seconds == 0


def test_progress_into_a_pipe_is_plain_lines_now_and_then():
    stream, now = io.StringIO(), [0.0]
    progress = Progress(stream, lambda: now[0])
    for runs in range(4):
        progress.step(runs, 1200, 100 - now[0], failed=1, what="cell")
        now[0] += 6
    progress.close()
    assert stream.getvalue() == "[2 of about 1,200 runs, 1 failed, about 1 min 28 s left] cell\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_is_one_line_that_leaves_nothing_behind_and_needs_no_thread(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream, threads = Terminal(), threading.active_count()
    progress = Progress(stream)
    progress.step(3, 1200, 100, failed=0, what="cell [bold]" + "x" * 200)
    assert threading.active_count() == threads
    drawn = stream.getvalue()
    assert "[3 of about 1,200 runs, about 1 min 40 s left] cell [bold]xxx" in drawn and "\n" not in drawn
    progress.close()
    assert stream.getvalue().endswith("\x1b[2K") or "\x1b[2K" in stream.getvalue()[len(drawn) :]
