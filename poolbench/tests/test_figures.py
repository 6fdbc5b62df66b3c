# SPDX-License-Identifier: BSL-1.0
import io

import pytest

from poolbench import figures, report
from poolbench.machine import Malloc
from poolbench.tests.support import outcome

TCMALLOC = Malloc("tcmalloc", "/lib/libtcmalloc_minimal.so.4")
WORK = {"workload": "w", "variant": "v"}
RATIO = {"work": "text", "cell": WORK, "contender": "pooled", "against": "best_malloc", "at_most": 0.5}


def test_ours_is_judged_against_the_fastest_malloc_by_medians():
    found = [
        outcome([10, 30, 20], "make_shared"),
        outcome([8, 9, 100], "make_shared", TCMALLOC),
        outcome([3, 4, 90], "pooled"),
    ]
    verdict = figures.judge(RATIO, found)
    assert verdict.measured == pytest.approx(4 / 9)
    assert verdict.met
    assert verdict.against == "best malloc (tcmalloc)"


def test_a_figure_above_its_bound_is_not_met():
    assert not figures.judge(RATIO, [outcome([10], "make_shared"), outcome([5.1], "pooled")]).met


def test_a_figure_without_samples_is_not_measured_rather_than_met():
    verdict = figures.judge(RATIO, [outcome([10], "make_shared")])
    assert (verdict.met, verdict.measured, verdict.word()) == (None, None, "not measured")


def test_cells_of_other_toolchains_and_parameters_do_not_count():
    found = [
        outcome([10], "make_shared", toolchain="clang-libcxx"),
        outcome([10], "make_shared", variant="other"),
        outcome([1], "pooled"),
    ]
    assert figures.judge(RATIO, found).met is None


def test_an_inverse_figure_says_how_many_times_ahead():
    figure = {**RATIO, "against": "make_shared", "inverse": True, "at_least": 15}
    verdict = figures.judge(figure, [outcome([60], "make_shared"), outcome([3], "pooled")])
    assert (verdict.measured, verdict.met, verdict.asked) == (20, True, ">= 15")


def test_an_absolute_figure_reads_its_own_field():
    figure = {**RATIO, "against": "nothing", "field": "growth_mib", "at_most": 24}
    assert figures.judge(figure, [outcome([{"growth_mib": 23.5}], "pooled")]).met


def test_every_figure_asked_for_is_written_completely():
    for figure in figures.load():
        assert set(figure) <= {"work", "cell", "contender", "against", "at_most", "at_least", "inverse", "field"}
        assert ("at_most" in figure) != ("at_least" in figure)


def test_tables_into_a_pipe_hold_no_escape_whatever_the_environment_asks(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    console = report.console(stream)
    found = [outcome([10], "make_shared"), outcome([5], "pooled")]
    for group, members in report.groups(found).items():
        console.print(report.experiment_table(group, members))
    console.print(report.figures_table(found))
    assert "\x1b" not in stream.getvalue()
    assert "0.50" in stream.getvalue()


def test_the_published_seconds_of_e1_stand_beside_the_cell_they_belong_to():
    e1 = outcome([150], "make_shared", TCMALLOC, workload="e1_list_churn", variant="text")
    assert report.published(e1.cell) == "30.3 s = 121 ns"
    code = outcome([150], "make_shared", TCMALLOC, workload="e1_list_churn", variant="code")
    assert report.published(code.cell) == ""
