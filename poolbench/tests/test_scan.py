# SPDX-License-Identifier: BSL-1.0
"""`run --scan`: which points, which cells, and the curve that the report draws of them."""

import pytest

from poolbench.analysis import estimate
from poolbench.commands.run import check_memory
from poolbench.plan import description, scan
from poolbench.plan.description import Description
from poolbench.plan.selection import SelectionError
from poolbench.report import charts, page
from poolbench.results import record
from poolbench.results.read import read
from poolbench.system import hardware
from poolbench.tests import support
from poolbench.tests.test_run import run  # noqa: F401 - a fixture


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("live=1e3..1e5", [1000, 3000, 10_000, 30_000, 100_000]),
        ("live=1000..200000", [1000, 3000, 10_000, 30_000, 100_000, 200_000]),
        ("threads=1..8", [1, 2, 4, 8]),
        ("threads=1..6", [1, 2, 4, 6]),
        ("payload=1500,48,48", [48, 1500]),
    ],
)
def test_a_range_has_both_ends_and_even_steps_between(word, values):
    assert scan.parse(word) == (word.partition("=")[0], values)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["colour=1..2"], "--scan takes one of live, threads, payload, step"),
        (["live"], "--scan takes one of"),
        (["live=8..8"], "8 is not less than 8"),
        (["live=1.5..8"], "is no number"),
        (["live=-1..8"], "'-1' is no number"),
        (["live=0..8"], "0 is not from 1"),
        (["threads=1..1e9"], "is not from 1 to 1,024"),
        (["live=1,,2"], "'' is no number"),
        (["live=1..2", "live=3,4"], "given twice"),
    ],
)
def test_a_range_that_can_not_be_is_refused(words, message):
    with pytest.raises(SelectionError, match=message):
        scan.parse_all(words)


CELLS = [
    support.cell("pooled", live=10, threads=2, scale=0.2),
    support.cell("pooled", live=1000, threads=2, scale=0.01),
    support.cell("make_shared", live=10, threads=2, scale=0.2),
    support.cell("pooled", workload="other"),
]


def test_each_contender_has_a_curve_of_one_scale():
    found = scan.scanned(CELLS, {"live": [5, 50]}, "quick")
    assert {(c.contender, c.live, c.threads, c.scale) for c in found} == {
        ("pooled", 5, 2, 0.01), ("pooled", 50, 2, 0.01), ("make_shared", 5, 2, 0.2), ("make_shared", 50, 2, 0.2),
    }  # fmt: skip


def test_two_axes_are_two_curves_not_a_plane():
    found = scan.scanned(CELLS[:1], {"live": [5, 50], "threads": [1, 8]}, "quick")
    assert {(c.live, c.threads) for c in found} == {(5, 2), (50, 2), (10, 1), (10, 8)}


def test_what_has_no_such_parameter_can_not_be_scanned():
    with pytest.raises(SelectionError, match="nothing that was chosen of the profile quick has live to scan"):
        scan.scanned(CELLS[3:], {"live": [1, 2]}, "quick")


def test_the_command_measures_the_points_and_remembers_that_it_scanned(run):  # noqa: F811
    result = run("--scan", "payload=48,64", payloads=[48, 64])
    assert result.exit_code == 0, result.stderr
    found = read(result.path)
    assert {cell.payload for cell, _ in found.samples} == {48, 64}
    assert found.session["selection"] == {"scan": {"payload": [48, 64]}}


def test_a_size_that_the_workload_is_not_compiled_for_is_refused_before_anything_is_measured(run):  # noqa: F811
    result = run("--scan", "payload=16..64", payloads=[48, 64])
    assert result.exit_code == 2 and not result.path.exists()
    assert "w is compiled for objects of 48,64 bytes, not 16: say payload=48,64; poolbench advise" in result.stderr


def test_more_objects_than_the_machine_holds_are_refused(run, monkeypatch):  # noqa: F811
    result = run("--scan", "live=1..1e9")
    assert result.exit_code == 2 and "has live to scan" in result.stderr
    usual = hardware.describe()
    monkeypatch.setattr(hardware, "describe", lambda: {**usual, "memory_mib": 1024})
    check_memory([support.cell(payload=48, live=1_000_000)])
    with pytest.raises(SelectionError, match="more than half of this machine's memory"):
        check_memory([support.cell(payload=48, live=10_000_000)])


def test_the_report_draws_the_curve_and_the_picture_is_of_it(tmp_path):
    values = {
        support.cell(c, live=n): ns * n / 100 for c, ns in (("pooled", 5.0), ("make_shared", 9.0)) for n in (10, 100)
    }
    samples = [support.sample(cell, ns * wide) for cell, ns in values.items() for wide in (0.99, 1.0, 1.01)]
    session = support.session(selection={"scan": {"live": [10, 100]}})
    path = support.write(tmp_path / "r.jsonl", session, *samples, record.line("finished", runs=6, failed=0))
    results = read(path)
    (chart,) = charts.of_scan("w", ["live"], estimate.estimates(results))
    assert (chart.kind, chart.x, chart.rows) == ("lines", "live", [])
    ((_, _, words),) = charts.panels(chart, Description("w", "W"), estimate.estimates(results))
    assert "against live objects, from 10 to 100" in words and "pooled: from 0.50 to 5.00" in words
    assert "Time against live objects" in page.render(results, description.load())
    assert "<svg" in page.picture_svg(results, description.load())
