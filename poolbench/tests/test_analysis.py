# SPDX-License-Identifier: BSL-1.0
import json
import math
import random

import pytest

from poolbench import tables
from poolbench.analysis import claims, estimate, headlines, rows
from poolbench.analysis.claims import Verdict
from poolbench.plan import description
from poolbench.plan.description import Description, Headline
from poolbench.results import record
from poolbench.results.read import read
from poolbench.tests import support
from poolbench.tests.support import invoke

GCC = {"toolchain": "gcc"}


def noisy(middle, n=9, seed=0, share=0.01):
    rng = random.Random(f"{middle} {seed}")
    return [middle * (1 + rng.uniform(-share, share)) for _ in range(n)]


def times(share=0.01, **ns):
    """Of contenders, or CONTENDER_on_MALLOC, that take so many ns."""
    return {support.cell(*name.split("_on_")): noisy(middle, share=share) for name, middle in ns.items()}


def results(tmp_path, values):
    return read(support.results_file(tmp_path / "r.jsonl", values))


# --- estimates and rows


def test_of_a_worst_figure_the_largest_counts_and_no_interval_is_claimed(tmp_path):
    made = tmp_path / "r.jsonl"
    samples = [support.sample(support.cell(), 5, figures={"cpu_ns_worst": value}) for value in (9, 140, 12)]
    estimated = estimate.estimates(read(support.write(made, support.session(), *samples)))
    worst = next(row for row in estimated if row["measure"] == "cpu_ns_worst")
    assert (worst["median"], worst["n"], worst["high"]) == (140, 3, math.inf)


def test_samples_compare_where_a_word_takes_as_long_to_the_other_processor(tmp_path):
    def taken(contender, *runs):
        cell = support.cell(contender)
        return [support.sample(cell, ns, figures={"hand_over_ns": word} if word else {}) for ns, word in runs]

    samples = [
        *taken("make_shared", (9, 27), (46, 170), (11, 40), (10, 28)),
        *taken("pooled", (8, 28), (45, 172), (44, 171)),
        *taken("new", (7, 0)),
    ]
    found = read(support.write(tmp_path / "r.jsonl", support.session(), *samples))
    times = {
        cell.contender: values for (cell, measure), values in estimate.collect(found).items() if measure == "ns_per_op"
    }
    assert times == {"make_shared": [9, 11, 10], "pooled": [8, 45, 44], "new": [7]}
    assert estimate.collect(found, paired=True)[support.cell(), "ns_per_op"] == [9, 46, 11, 10]


def test_a_file_says_in_how_many_runs_others_used_the_cores(tmp_path):
    samples = [{**support.sample(support.cell(), 9), "core_shared": share} for share in (0.0, 1.0, 0.05, None, 0.3)]
    found = read(support.write(tmp_path / "r.jsonl", support.session(), *samples))
    assert "quiet at the start, others used its cores in 40% of the runs" in found.origin()


def test_a_row_has_its_ratio_to_the_base_on_the_same_malloc(tmp_path):
    values = {support.cell("new"): [9.0], support.cell("new", "tc"): [6.0], support.cell("make_shared", "tc"): [4.0]}
    (group,) = rows.groups(results(tmp_path, values), {})
    by_cell = {row.cell: row for row in group.rows}
    assert by_cell[support.cell("new", "tc")].ratio.median == 1.5
    assert by_cell[support.cell("new")].ratio is None


# --- claims

ABOUT_TWICE = {
    "by": "somebody",
    "text": "new takes twice as long",
    "workload": "w",
    "tests": [{"above": {"contender": "new"}, "below": {"contender": "make_shared"}, "at_least": 1.8, "at_most": 2.2}],
}


def judged(tmp_path, values, claim=ABOUT_TWICE):
    (found,) = claims.judge(estimate.estimates(results(tmp_path, values)), [claim])
    return found


@pytest.mark.parametrize(
    ("ratio", "share", "verdict"),
    [
        (2.0, 0.01, Verdict.holds),
        (1.5, 0.01, Verdict.fails),
        (2.5, 0.01, Verdict.fails),
        (2.2, 0.01, Verdict.unknown),
        (2.0, 0.5, Verdict.unknown),
    ],
)
def test_a_claim_is_judged_by_its_whole_interval(tmp_path, ratio, share, verdict):
    assert judged(tmp_path, times(share, new=10 * ratio, make_shared=10.0)).verdict is verdict


def test_every_claim_is_written_completely():
    described = description.load()
    for claim in claims.load():
        assert set(claim) <= {"by", "text", "workload", "variants", "where", "measure", "tests"}
        assert claim["workload"] in described
        for test in claim["tests"]:
            assert set(test) <= {"above", "below", "at_least", "at_most"}
            assert {"at_least", "at_most"} & set(test)
    published = {claim["by"] for claim in claims.load()}
    assert {"L. Barth (E1)", "10 Gbit/s capture (E2)", "R. Grimm (E3)", "f18m (E4)"} <= published
    assert all(c["variants"] == ["text", "code"] for c in claims.load() if c["by"] == "L. Barth (E1)")


# --- the summary


def test_the_summary_compares_ours_with_the_best_malloc(tmp_path):
    values = times(make_shared=30.0, make_shared_on_tcmalloc=20.0, pooled=10.0, pooled_on_tcmalloc=1.0, raw=5.0)
    row = headline(tmp_path, values, limit="raw", limit_is="raw pointers")
    assert (row.best, row.over_best.verdict, row.limit["contender"]) == ("tcmalloc", "ahead", "raw")
    assert row.over_best.ratio == pytest.approx(2, rel=0.02)
    assert row.over_best.low < row.over_best.ratio < row.over_best.high
    assert row.over_glibc.ratio == pytest.approx(3, rel=0.02)


def headline(tmp_path, values, installed=(), **how):
    described = {"w": Description("w", "W", headlines=[Headline("work", {}, **how)])}
    (row,) = headlines.rows(estimate.estimates(results(tmp_path, values)), described, installed)
    return row


def test_there_is_no_best_malloc_while_an_installed_one_was_not_measured(tmp_path):
    values = times(make_shared=30.0, pooled=1.0)
    row = headline(tmp_path, values, ["glibc", "tcmalloc"])
    assert (row.over_best, row.not_measured) == (None, ["tcmalloc"])
    assert row.over_glibc.verdict == "ahead"
    assert headline(tmp_path, values, ["glibc"]).over_best.verdict == "ahead"


def test_the_gain_over_glibc_is_that_over_the_better_of_new_and_make_shared(tmp_path):
    values = times(make_shared=30.0, new=20.0, pooled=10.0)
    found = headline(tmp_path, values).over_glibc
    assert (found.over, found.ratio) == ("new", pytest.approx(2, rel=0.02))
    new = values.pop(support.cell("new"))
    for scale, over in ((0.5, "new"), (0.001, "make_shared")):  # the last is another experiment
        assert headline(tmp_path, {**values, support.cell("new", scale=scale): new}).over_glibc.over == over


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.01, 1.2, "ahead"),
        (0.8, 0.99, "behind"),
        (0.96, 1.04, "even"),
        (1.01, 1.04, "even"),  # less than the margin makes no difference, on either side
        (0.96, 0.99, "even"),
        (0.9, 1.01, "undecided"),
        (0.99, 1.1, "undecided"),
        (1.2, float("inf"), "undecided"),  # one run alone
    ],
)
def test_a_verdict_is_that_of_the_whole_interval_and_treats_both_sides_alike(low, high, verdict):
    assert headlines.Lead("glibc", (low + high) / 2, low, high).verdict == verdict


@pytest.mark.parametrize(("runs", "verdict"), [(2, "undecided"), (3, "undecided"), (4, "ahead")])
def test_a_few_runs_that_lie_apart_by_chance_decide_nothing(tmp_path, runs, verdict):
    row = headline(tmp_path, {cell: values[:runs] for cell, values in times(make_shared=30.0, pooled=20.0).items()})
    assert row.over_glibc.verdict == row.over_best.verdict == verdict


def test_a_difference_that_is_not_shown_is_undecided_and_never_even(tmp_path):
    row = headline(tmp_path, times(0.3, make_shared=20.0, pooled=20.001))
    assert row.over_best.verdict == "undecided"
    note = tables.summary_sheet([row]).note
    assert "undecided: poolbench run -w w --samples 36 --fresh" in note


# --- tables


@pytest.fixture
def measured(tmp_path):
    failure = record.line("failure", cell=support.cell("bad|cell", payload=48).to_record(), kind="hang", reason="slow")
    samples = [support.sample(support.cell(c, payload=48), ns, figures={"bytes_each": 64.0})
               for c, middle in (("make_shared", 20.0), ("pooled", 10.0)) for ns in noisy(middle)]  # fmt: skip
    return support.write(tmp_path / "r.jsonl", support.session(), *samples, failure)


def test_all_formats_hold_the_same_figures(measured):
    told = json.loads(invoke("table", measured, "--format", "json").stdout)
    ours = next(row for row in told if row["contender"] == "pooled")
    assert ours["runs"] == 9 and ours["ns_per_op"]["low"] < ours["ns_per_op"]["median"]
    assert ours["ratio_to_base"] == pytest.approx(0.5, rel=0.05)
    assert next(row for row in told if row["contender"] == "bad|cell")["failure"] == "slow"
    shown = f"{ours['ns_per_op']['median']:.2f}" if ours["ns_per_op"]["median"] < 10 else "10."
    for form in ("text", "markdown"):
        text = invoke("table", measured, "--format", form).stdout
        assert shown in text and "FAILED" in text and "bytes_each" in text


def test_tables_into_a_pipe_hold_no_escape_whatever_the_environment_asks(measured, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for words in (["table"], ["table", "--summary"], ["claims"]):
        result = invoke(*words, measured)
        assert "\x1b" not in result.output and result.stdout


def test_the_fastest_malloc_is_unknown_while_an_installed_one_was_not_measured(tmp_path):
    below = {"contender": "make_shared", "malloc": "all"}
    claim = {**ABOUT_TWICE, "tests": [{"above": {"contender": "new"}, "below": below, "at_least": 1.8}]}
    frame = estimate.estimates(results(tmp_path, times(new=20.0, make_shared=10.0)))
    (known,), (unknown,) = (list(claims.judge(frame, [claim], installed=i)) for i in (["glibc"], ["glibc", "jemalloc"]))
    assert (known.verdict, unknown.tests[0].why) == (Verdict.holds, "not measured")


def test_our_own_operator_new_is_not_the_fastest_malloc(tmp_path):
    below = {"contender": "make_shared", "malloc": "all"}
    claim = {**ABOUT_TWICE, "tests": [{"above": {"contender": "new"}, "below": below, "at_least": 1.8, "at_most": 2.2}]}
    values = times(new=20.0, make_shared=10.0, **{"make_shared_on_pooled-new": 5.0})
    assert judged(tmp_path, values, claim).verdict is Verdict.holds


def test_claims_end_in_status_1_when_a_promise_of_ours_does_not_hold(tmp_path):
    cell = support.cell("pooled", workload="e17_at_bound", variant="failing")
    kept = support.results_file(tmp_path / "kept.jsonl", {cell: noisy(100.0)})
    broken = support.results_file(tmp_path / "broken.jsonl", {cell: noisy(2000.0)})
    assert invoke("claims", kept).exit_code == 0
    result = invoke("claims", broken)
    assert result.exit_code == 1
    assert "1 of pooled's own promises do not hold" in result.stderr
