# SPDX-License-Identifier: BSL-1.0
"""`poolbench compare`: what it says of runs whose truth is known, and the command."""

import json

import numpy as np
import pytest

from poolbench.analysis import compare, stats
from poolbench.analysis.compare import Verdict
from poolbench.measure import stopping
from poolbench.measure.stopping import Rule, State
from poolbench.results.read import read
from poolbench.tests import support
from poolbench.tests.support import invoke
from poolbench.tests.test_analysis import noisy

RULE = Rule(least=7, most=30, precision=0.025)
CELLS = [support.cell(f"pooled_{i}", workload=f"w{i % 2}", payload=48) for i in range(6)]


def one_run(rng, factor=1.0):
    """Both executables in one run, which ends as the real one does. A process run deviates by a fiftieth. Where code
    lies in memory moves each cell of the new one by a hundredth; what else the machine does meets both."""
    old, new = {}, {}
    for cell in CELLS:
        sides = [20.0, 20.0 * factor * np.exp(rng.normal(0, 0.01))]
        both = [State(support.cell(cell.contender, toolchain=side), "ns_per_op") for side in ("old", "new")]
        stopping.pair(both)
        while not all(stopping.settled(state, RULE) for state in both):
            mood = np.exp(rng.normal(0, 0.3))
            for state, ns in zip(both, sides, strict=True):
                state.add({"ns_per_op": ns * mood * np.exp(rng.standard_t(4) / np.sqrt(2) * 0.02)}, 0.2)
        old[cell], new[cell] = both[0].values, both[1].values
    groups, found = compare.judge(old, new)
    return [*groups, *found]


def test_two_executables_that_are_alike_are_not_told_apart_and_a_tenth_is_found():
    rng = np.random.default_rng(13)
    assert sum(any(d.regression(0.05) for d in one_run(rng)) for _ in range(15)) <= 1
    assert all(any(d.regression(0.05) for d in one_run(rng, factor=1.1)) for _ in range(5))


def test_neither_drift_between_rounds_hides_a_change_nor_a_gain_is_a_regression():
    rng = np.random.default_rng(5)
    slower, faster = one_run(rng, factor=1.1), one_run(rng, factor=0.9)
    assert all(each.regression(0.05) and each.verdict(0.05) is Verdict.slower for each in slower)
    assert all(each.verdict(0.05) is Verdict.faster and not each.regression(0.05) for each in faster)


def test_an_interval_of_what_is_unchanged_covers_nothing_changed_about_as_often_as_it_says():
    rng, covered = np.random.default_rng(7), 0
    for _ in range(500):
        moods = rng.normal(0, 0.3, 15)
        old, new = (list(np.exp(moods + rng.normal(0, 0.02, 15))) for _ in range(2))
        _, (found,) = compare.judge({CELLS[0]: old}, {CELLS[0]: new})
        covered += found.low <= 1 <= found.high
    assert covered / 500 >= 0.9


def test_groups_are_all_of_them_each_contender_and_each_workload_that_have_several_cells():
    samples = {cell: noisy(10.0, 7, seed=i) for i, cell in enumerate(CELLS)}
    groups, cells = compare.judge(samples, samples)
    assert [(each.what, each.cells) for each in groups] == [("all of them", 6), ("workload w0", 3), ("workload w1", 3)]
    assert all(each.ratio == 1 and each.verdict(0.05) is Verdict.equal for each in [*groups, *cells])


# --- the command


@pytest.fixture
def benches(tmp_path):
    def make(name, ours, **how):
        contenders = ("make_shared", "new", "raw", "boost", "tbb", "foonathan", "pooled")
        return support.fake_bench(tmp_path / name, contenders, ns={"pooled": ours}, noise=0.01, **how)

    return make


def test_two_executables_are_interleaved_in_one_run_and_judged(tmp_path, benches):
    old, new = benches("old", 1.0), benches("new", 1.15)
    kept = tmp_path / "kept.jsonl"
    result = invoke("compare", "--bin", old, "--bin", new, "--samples", 5, "--budget", "1s", "--output", kept)
    assert result.exit_code == 1, result.output
    assert "REGRESSION" in result.stdout and "NOT this machine" not in result.stdout
    order = [(cell.contender, cell.toolchain) for cell, _ in read(kept).samples]
    pairs = [order[i : i + 2] for i in range(0, len(order), 2)]
    assert all(a[0] == b[0] and {a[1], b[1]} == {"old", "new"} for a, b in pairs)
    assert len({a[1] for a, _ in pairs}) == 2  # either goes first at times
    assert invoke("compare", "--bin", new, "--bin", old, "--samples", 5, "--budget", "1s").exit_code == 0


def test_only_ours_are_measured_and_the_time_is_said_first(tmp_path, benches):
    old, kept = benches("old", 1.0), tmp_path / "kept.jsonl"
    words = ["compare", "--bin", old, "--bin", old, "--samples", 2, "--budget", "1s", "--output", kept]
    said = invoke(*words).stderr
    forecast = next(line for line in said.splitlines() if "cells: 1; 2 pairs of runs of each take" in line)
    assert said.index(forecast) < said.index("results:")
    cells = {(cell.contender, cell.toolchain) for cell in read(kept).cells()}
    assert cells == {("pooled", "old"), ("pooled", "new")}
    again = invoke(*words).stderr  # continued: the same cells, none of which lacks anything
    assert "a first run" not in again and "going on with" in again
    assert {(cell.contender, cell.toolchain) for cell in read(kept).cells()} == cells
    assert "cells: 2; " in invoke(*words[:-2], "-c", "pooled,raw").stderr


def test_a_file_of_other_executables_or_of_these_in_other_parts_is_not_continued(tmp_path, benches):
    old, new, kept = benches("old", 1.0), benches("new", 1.1), tmp_path / "kept.jsonl"
    words = ["--samples", 2, "--budget", "1s", "--output", kept]
    invoke("compare", "--bin", old, "--bin", new, *words)
    before = kept.read_bytes()
    result = invoke("compare", "--bin", new, "--bin", old, *words)
    assert result.exit_code == 2 and "other executables" in result.stderr
    assert kept.read_bytes() == before


def test_a_file_that_cannot_be_written_is_said_before_anything_is_run(tmp_path, benches):
    old, other = benches("old", 1.0), tmp_path / "notes.txt"
    other.write_text("mine")
    for output, status in ((other, 2), (tmp_path / "notes.txt" / "x.jsonl", 1)):
        result = invoke("compare", "--bin", old, "--bin", old, "--output", output)
        assert result.exit_code == status and "a first run" not in result.stderr
    assert other.read_text() == "mine"
    assert not (old.parent / "log").exists()


def test_a_directory_that_is_no_checkout_is_bad_input(tmp_path, benches):
    result = invoke("compare", "--bin", benches("old", 1.0), "--bin", tmp_path)
    assert result.exit_code == 2 and "is no checkout" in result.stderr


def test_a_crash_in_the_new_executable_alone_fails_the_gate(benches):
    old, new = benches("old", 1.0), benches("new", 1.0, behaves={"pooled": "crash"})
    result = invoke("compare", "--bin", old, "--bin", new, "--samples", 3, "--budget", "1s")
    assert result.exit_code == 1
    assert "FAILED in the second alone: w loop pooled" in result.stdout


def test_the_json_names_what_differs(benches):
    result = invoke("compare", "--bin", benches("old", 1.0), "--bin", benches("new", 1.15), "--samples", 5, "--json")
    told = json.loads(result.stdout)
    assert told["regressions"] == [told["cells"][0]["what"]] and told["cells"][0]["verdict"] == "slower"
    assert told["cells"][0]["cell"]["contender"] == "pooled" and told["failed"] == []


def test_two_files_are_judged_by_the_quotient_of_their_medians(tmp_path):
    pooled, held = support.cell("pooled", payload=48), support.cell("pooled_rc", payload=48)

    def file(name, factor, deviation=0.01):
        values = {pooled: noisy(10 * factor, 9, len(name), deviation), held: [5.0] * 9}
        return support.results_file(tmp_path / name, values | {support.cell(): noisy(20.0, 9)})

    old, same, slower, wild = file("a", 1), file("bb", 1), file("ccc", 1.2), file("dddd", 1, 0.5)
    assert invoke("compare", old, same).exit_code == 0
    told = json.loads(invoke("compare", old, slower, "--json").stdout)
    assert [each["verdict"] for each in told["cells"]] == ["slower", "equal"] and len(told["origin"]) == 2
    assert told["cells"][0]["ratio"] == pytest.approx(1.2, abs=0.02) and invoke("compare", old, slower).exit_code == 1
    assert invoke("compare", slower, old).exit_code == 0
    undecided = invoke("compare", old, wild)
    assert undecided.exit_code == 3 and "2 cells: 1 shown equal within 5%" in undecided.stdout
    assert invoke("compare", old, wild, "-c", "make_shared").exit_code == 0
    wild.write_text(wild.read_text().replace("Test CPU", "Other CPU"))
    assert "DIFFERENT MACHINES" in invoke("compare", old, wild).stderr


def test_wrong_words_are_bad_input(benches):
    old = benches("old", 1.0)
    assert invoke("compare").exit_code == 2
    assert invoke("compare", "--bin", old).exit_code == invoke("compare", old).exit_code == 2
    assert invoke("compare", "--bin", old, "--bin", old, "--fail-above", "much").exit_code == 2
    assert invoke("compare", "--bin", old, "--bin", old, "-c", "raw,nothing").exit_code == 2


# --- the statistics, on samples whose answers are known


def test_the_interval_of_a_median_of_five_is_their_range():
    # By the binomial distribution it misses the true median with probability 2 / 2^5 only.
    assert stats.interval(np.median, [3, 1, 2, 5, 4]) == (1, 5)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    samples = list(rng.lognormal(0, 0.2, (400, 15)))
    held = sum(low <= 1 <= high for low, high in stats.all_intervals(np.median, samples))
    assert 0.91 <= held / 400 <= 0.99


def test_samples_that_are_all_alike_have_an_interval_of_no_width():
    assert stats.interval(np.median, [64.0] * 5) == (64, 64)
    assert stats.half_width([0.0] * 5) == 0
    assert stats.half_width([0.0, 0.0, 0.0, 1.0, 1.0]) == float("inf")


def test_the_least_of_several_is_uncertain_too():
    rng = np.random.default_rng(8)
    alike = [list(rng.normal(100, 5, 9)) for _ in range(4)]
    low, high = stats.ratio_interval(alike, [50.0] * 9)
    assert low < min(np.median(each) for each in alike) / 50 <= high
