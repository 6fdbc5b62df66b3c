# SPDX-License-Identifier: BSL-1.0
"""`poolbench compare`: what it says of sessions whose truth is known, and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from poolbench import cli
from poolbench.analysis import compare, drift
from poolbench.analysis.compare import Verdict
from poolbench.plan import description
from poolbench.plan.description import is_ours
from poolbench.results import record
from poolbench.results.read import read
from poolbench.tests import support
from poolbench.tests.sessions import CELLS, World, flagged, interleaved, session
from poolbench.tests.test_analysis import noisy, results


@pytest.fixture
def invoke():
    return lambda *words: CliRunner().invoke(cli.app, [str(word) for word in words])


# --- simulated sessions


@pytest.mark.parametrize("drifting", [0.05, 0.30])
def test_of_unchanged_pairs_at_most_a_twentieth_is_flagged_whatever_the_session_did(drifting):
    assert flagged(World(drifting), pairs=100) <= 0.05


def test_neither_is_it_when_sessions_treat_contenders_unequally():
    assert flagged(World(0.30, of_contenders=0.1), pairs=100, seed=1) <= 0.10  # 5 % and the luck of a hundred


@pytest.mark.parametrize("drifting", [0.05, 0.30])
@pytest.mark.parametrize("slower", ["pooled", "pooled_instance"])
def test_a_contender_that_became_a_tenth_slower_is_found_in_nine_of_ten_quick_runs(slower, drifting):
    assert flagged(World(drifting), 20, slower, 1.1) >= 0.9


def test_cells_of_one_session_are_no_independent_witnesses():
    """All times of the second session are 38 % longer, as a busy machine makes them: that is no regression."""
    rng = np.random.default_rng(1)
    a, b = session(rng, World(0.0)), session(rng, World(0.0))
    found = compare.judge(a, {cell: [1.377 * ns for ns in values] for cell, values in b.items()})
    assert found.judged and not found.regressions(0.05)
    assert np.exp(found.shift.value) == pytest.approx(1.377, rel=0.02)
    assert found.repeated[Verdict.differs] > 0.9 * len(CELLS)  # as plain times the files do not agree


def test_in_one_run_neither_drift_between_rounds_nor_the_lack_of_controls_hides_a_change():
    rng = np.random.default_rng(5)
    ours = [cell for cell in CELLS if cell.contender == "pooled"][:4]
    moods = rng.normal(0, 0.3, 7)  # of the rounds, which both executables meet

    def side(factor):
        return {cell: list(20 * factor * np.exp(moods + rng.normal(0, 0.02, 7))) for cell in ours}

    assert compare.judge(side(1), side(1.1), same_session=True).regressions(0.05)
    assert not compare.judge(side(1), side(1), same_session=True).regressions(0.05)
    assert not compare.judge(side(1), side(1.1)).judged


def test_two_executables_that_are_alike_are_not_told_apart_and_a_tenth_is_found():
    assert interleaved(run=0.02, pairs=15) <= 0.07
    assert interleaved(run=0.02, pairs=10, slower="pooled", factor=1.1) >= 0.9


def test_an_interval_of_an_unchanged_contender_covers_nothing_changed():
    rng, covered = np.random.default_rng(7), 0
    for _ in range(40):
        found = compare.judge(session(rng, World(0.1)), session(rng, World(0.1)))
        group = next(each for each in found.groups if each.what == "contender pooled")
        covered += group.low <= 1 <= group.high
    assert covered / 40 >= 0.88


def test_the_variances_of_the_model_are_those_of_the_sessions():
    rng, cells, blocks = np.random.default_rng(3), 4000, 40
    block, kinds = np.arange(cells) % blocks, np.arange(cells) // 40
    change = rng.normal(0, 0.2, blocks)[block] + rng.normal(0, 0.05, kinds.max() + 1)[kinds] + rng.normal(0, 0.1, cells)
    same = np.full(cells, 1e-4)
    found = drift.Changes(change, same, same, np.full(cells, 8.0), np.full(cells, 5))
    model = drift.Model(found, block, kinds, np.ones(cells, dtype=bool), False)
    assert model.cell_variance == pytest.approx(0.1**2 + 0.05**2, rel=0.15)
    assert model.contender_variance == pytest.approx(0.05**2, rel=0.4)


# --- the command


def many(factor=1.0, n=9, seed=0, only=None, cells=12):
    """Ours and as many controls."""
    made = {}
    for i in range(cells):
        slower = factor if only is None or i in only else 1
        made[support.cell(f"c{i}", payload=48)] = noisy(10.0 + i, n, seed)
        made[support.cell(f"pooled_{i}", payload=48)] = [ns * slower for ns in noisy(40.0 + i, n, seed)]
    return made


def test_a_file_against_itself_shows_every_cell_equal(tmp_path, invoke):
    path = support.results_file(tmp_path / "a.jsonl", many())
    result = invoke("compare", path, path)
    assert result.exit_code == 0, result.output
    assert "Ours, 12 cells: 12 shown equal within 5%, 0 differ, 0 undecided." in result.stdout
    assert "No regression by more than 5% is shown." in result.stdout


def test_the_files_machines_and_dates_come_first(tmp_path, invoke):
    path = support.results_file(tmp_path / "a.jsonl", many())
    first = invoke("compare", path, path).stdout.splitlines()[0]
    assert first.startswith("a.jsonl: Test CPU, 2 cores (NOT this machine); measured 20")


@pytest.mark.parametrize(
    ("slower", "n", "found"),
    [(None, 5, "all of pooled"), ([7], 9, "w loop pooled_7"), (range(6), 5, "w loop pooled_3")],
)
def test_a_slowdown_of_a_fifth_is_found(tmp_path, invoke, slower, n, found):
    a = support.results_file(tmp_path / "a.jsonl", many(n=n, seed=1))
    b = support.results_file(tmp_path / "b.jsonl", many(1.2, n=n, seed=2, only=slower))
    result = invoke("compare", a, b, "--json")
    assert result.exit_code == 1
    assert any(what.startswith(found) for what in json.loads(result.stdout)["regressions"])
    assert invoke("compare", b, a).exit_code == 0  # what became faster is no regression


def test_a_small_but_significant_slowdown_is_shown_and_fails_only_when_asked_to(tmp_path, invoke):
    a = support.results_file(tmp_path / "a.jsonl", many(seed=1))
    b = support.results_file(tmp_path / "b.jsonl", many(1.03, seed=2))
    assert invoke("compare", a, b).exit_code == 0
    assert "differs" in invoke("compare", a, b).stdout
    assert invoke("compare", a, b, "--fail-above", "2%").exit_code == 1


def test_too_few_runs_are_undecided_and_the_command_that_decides_is_named(tmp_path, invoke):
    loud = {cell: noisy(20.0, 5, i, share=0.3) for i, cell in enumerate(many())}
    other = {cell: noisy(20.0, 5, i + 99, share=0.3) for i, cell in enumerate(many())}
    a, b = support.results_file(tmp_path / "a.jsonl", loud), support.results_file(tmp_path / "b.jsonl", other)
    said = invoke("compare", a, b).stdout
    assert "0 shown equal within 5%" in said and "undecided" in said
    assert "What decides: poolbench compare --bin OLD --bin NEW" in said


def test_files_that_differ_by_290_percent_do_not_agree(tmp_path, invoke):
    a = support.results_file(tmp_path / "a.jsonl", many(seed=1))
    b = support.results_file(tmp_path / "b.jsonl", {c: [3.9 * ns for ns in v] for c, v in many(seed=2).items()})
    said = invoke("compare", a, b).stdout
    assert "Plain times of all 24 cells: 0 shown equal within 10%, 24 differ" in said
    assert "controls (contenders that cannot change) are +290" in said


def test_a_cell_that_crashes_in_the_second_file_fails_the_gate(tmp_path, invoke):
    a = support.results_file(tmp_path / "a.jsonl", many())
    broken = record.line(
        "failure", cell=support.cell("pooled_3", payload=48).to_record(), kind="crash", reason="SIGSEGV"
    )
    rest = {cell: values for cell, values in many().items() if cell.contender != "pooled_3"}
    b = support.results_file(tmp_path / "b.jsonl", rest)
    b.write_text(b.read_text() + json.dumps(broken) + "\n")
    result = invoke("compare", a, b)
    assert result.exit_code == 1
    assert "FAILED in the second alone: w loop pooled_3" in result.stdout and "SIGSEGV" in result.stdout
    assert json.loads(invoke("compare", a, b, "--json").stdout)["failed"][0]["contender"] == "pooled_3"
    assert invoke("compare", b, b).exit_code == 0  # it failed before as well


def test_without_controls_nothing_is_judged_and_the_status_says_so(tmp_path, invoke):
    ours = {cell: values for cell, values in many().items() if is_ours(cell.contender)}
    path = support.results_file(tmp_path / "a.jsonl", ours)
    result = invoke("compare", path, path)
    assert result.exit_code == 2
    assert "NOT JUDGED" in result.stdout and "--bin OLD --bin NEW" in result.stdout


def test_memory_is_compared_by_its_own_figure(tmp_path):
    cell = support.cell("pooled", workload="e10_resident", variant="live")
    a = results(tmp_path, {cell: noisy(1.0)}, "a.jsonl", resident_bytes_per_object=64.0)
    b = results(tmp_path, {cell: noisy(2.0)}, "b.jsonl", resident_bytes_per_object=64.0)
    found = compare.compare(a, b, description.load())
    assert found.cells[0].ratio == 1


@pytest.mark.parametrize("content", [None, "", "not json\n", json.dumps({"record": "session", "schema": 3}) + "\n"])
def test_bad_input_to_a_comparison_ends_in_status_2(tmp_path, invoke, content):
    good = support.results_file(tmp_path / "a.jsonl", many())
    bad = tmp_path / "b.jsonl"
    if content is not None:
        bad.write_text(content)
    assert invoke("compare", good, bad).exit_code == 2
    assert invoke("compare", bad, good).exit_code == 2


def test_files_without_a_common_cell_and_wrong_words_are_bad_input(tmp_path, invoke):
    a = support.results_file(tmp_path / "a.jsonl", {support.cell("a"): [1.0]})
    b = support.results_file(tmp_path / "b.jsonl", {support.cell("b"): [1.0]})
    result = invoke("compare", a, b)
    assert result.exit_code == 2
    assert "no cell in common" in result.stderr
    assert invoke("compare", a, a, "--fail-above", "much").exit_code == 2
    assert invoke("compare", a).exit_code == 2
    assert invoke("compare", "--bin", "x").exit_code == 2


# --- two executables in one run


@pytest.fixture
def benches(tmp_path):
    def make(name, ours):
        directory = tmp_path / name
        path = support.fake_bench(directory, ("make_shared", "new", "raw", "boost", "tbb", "foonathan", "pooled"))
        text = path.read_text().replace("(1.0 if", f"({ours} if").replace("/ 2550", "/ 25500")
        path.write_text(text)
        return path

    return make


def test_two_executables_are_interleaved_in_one_run_and_judged(tmp_path, invoke, benches):
    old, new = benches("old", 1.0), benches("new", 1.15)
    kept = tmp_path / "kept.jsonl"
    result = invoke("compare", "--bin", old, "--bin", new, "--samples", 5, "--budget", "1s", "--output", kept)
    assert result.exit_code == 1, result.output
    assert "REGRESSION" in result.stdout
    order = [(cell.contender, cell.toolchain) for cell, _ in read(kept).samples]
    pairs = [order[i : i + 2] for i in range(0, len(order), 2)]
    assert all(a[0] == b[0] and {a[1], b[1]} == {"old", "new"} for a, b in pairs)
    assert len({a[1] for a, _ in pairs}) == 2  # either goes first at times
    assert invoke("compare", "--bin", new, "--bin", old, "--samples", 5, "--budget", "1s").exit_code == 0


def test_only_ours_and_a_few_quick_controls_are_measured_and_the_time_is_said_first(tmp_path, invoke, benches):
    old, kept = benches("old", 1.0), tmp_path / "kept.jsonl"
    words = ["compare", "--bin", old, "--bin", old, "--samples", 2, "--budget", "1s", "--output", kept]
    said = invoke(*words, "-c", "pooled").stderr
    forecast = next(line for line in said.splitlines() if "controls: " in line)
    assert "cells: 1, controls: 6; 2 pairs of runs of each" in forecast and "takes" in forecast
    assert said.index(forecast) < said.index("results:")
    cells = {(cell.contender, cell.toolchain) for cell in read(kept).cells()}
    assert len(cells) == 14 and {("pooled", "old"), ("pooled", "new")} < cells
    again = invoke(*words, "-c", "pooled").stderr  # continued: the same cells, none of which lacks anything
    assert "a first run" not in again and "going on with" in again
    assert {(cell.contender, cell.toolchain) for cell in read(kept).cells()} == cells


def test_a_control_that_is_named_is_measured_as_it_is_and_without_any_of_ours_there_is_nothing_to_judge(
    tmp_path, invoke, benches
):
    old, kept = benches("old", 1.0), tmp_path / "kept.jsonl"
    words = ["compare", "--bin", old, "--bin", old, "--samples", 2, "--budget", "1s"]
    assert "cells: 2, controls: 5" in invoke(*words, "-c", "pooled,raw", "--output", kept).stderr
    alone = invoke(*words, "-c", "raw")
    assert alone.exit_code == 2 and "nothing of pooled" in alone.stderr


def test_a_file_of_other_executables_or_of_these_in_other_parts_is_not_continued(tmp_path, invoke, benches):
    old, new, kept = benches("old", 1.0), benches("new", 1.1), tmp_path / "kept.jsonl"
    words = ["--samples", 2, "--budget", "1s", "--output", kept]
    invoke("compare", "--bin", old, "--bin", new, *words)
    before = kept.read_bytes()
    result = invoke("compare", "--bin", new, "--bin", old, *words)
    assert result.exit_code == 2 and "other executables" in result.stderr
    assert kept.read_bytes() == before


def test_a_file_that_cannot_be_written_is_said_before_anything_is_run(tmp_path, invoke, benches):
    old, other = benches("old", 1.0), tmp_path / "notes.txt"
    other.write_text("mine")
    for output, status in ((other, 2), (tmp_path / "notes.txt" / "x.jsonl", 1)):
        result = invoke("compare", "--bin", old, "--bin", old, "--output", output)
        assert result.exit_code == status and "a first run" not in result.stderr
    assert other.read_text() == "mine"
    assert not (old.parent / "log").exists()


def test_a_directory_that_is_no_checkout_is_bad_input(tmp_path, invoke, benches):
    result = invoke("compare", "--bin", benches("old", 1.0), "--bin", tmp_path)
    assert result.exit_code == 2 and "is no checkout" in result.stderr


def test_a_crash_in_the_new_executable_alone_fails_the_gate(invoke, benches):
    old, new = benches("old", 1.0), benches("new", 1.0)
    new.write_text(new.read_text().replace('if contender == "crash":', 'if contender == "pooled":'))
    result = invoke("compare", "--bin", old, "--bin", new, "--samples", 3, "--budget", "1s")
    assert result.exit_code == 1
    assert "FAILED in the second alone: w loop pooled" in result.stdout


def test_the_same_executable_twice_is_told_of(invoke, benches):
    old = benches("old", 1.0)
    result = invoke("compare", "--bin", old, "--bin", old, "--samples", 3, "--budget", "1s")
    assert result.exit_code == 0
    assert "the same executable" in result.stderr
