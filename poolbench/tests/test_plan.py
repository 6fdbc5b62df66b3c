# SPDX-License-Identifier: BSL-1.0
from pathlib import Path

import pytest

from poolbench.errors import BadInput
from poolbench.plan import description, matrix, program
from poolbench.plan.selection import Selection
from poolbench.results.read import read_measured
from poolbench.system import build
from poolbench.tests import support

MALLOCS = ["glibc", "jemalloc"]


@pytest.fixture
def bench(tmp_path):
    how = {"variants": ["bulk"], "payloads": [1500, 48], "threads": 2, "live": [1000], "steps": [[1, 64]]}
    return program.load("gcc", support.fake_bench(tmp_path, ("make_shared", "slow"), workload="e4_steps", **how))


def described(tmp_path, text):
    path = tmp_path / "e4_steps.toml"
    path.write_text('title = "E4"\n' + text)
    return {"e4_steps": description.read(path)}


def cells(bench, tmp_path, text):
    return matrix.cells_of("quick", [bench], MALLOCS, described(tmp_path, text))


def test_an_executable_that_can_not_be_asked_is_named(tmp_path):
    with pytest.raises(BadInput, match="bench cannot be asked"):
        program.load("gcc", support.program(tmp_path / "bench", "raise SystemExit(3)"))


def test_a_part_is_every_combination_of_its_lists(bench, tmp_path):
    found = cells(bench, tmp_path, '[[cells]]\npayload=[48]\ncontender=["make_shared"]\nmalloc="all"\nquick=0.5')
    assert {(c.step, c.malloc) for c in found} == {(1, "glibc"), (64, "glibc"), (1, "jemalloc"), (64, "jemalloc")}
    assert {(c.payload, c.threads, c.live, c.scale) for c in found} == {(48, 2, 1000, 0.5)}


def test_an_earlier_part_goes_before_a_later_one(bench, tmp_path):
    text = '[[cells]]\ncontender=["slow"]\nquick=0.1\n[[cells]]\ncontender="all"\nquick=1.0'
    assert {(c.contender, c.scale) for c in cells(bench, tmp_path, text)} == {("slow", 0.1), ("make_shared", 1.0)}


def test_a_workload_without_a_description_is_measured_all_the_same(bench):
    assert {c.workload for c in matrix.cells_of("quick", [bench], MALLOCS, {})} == {"e4_steps"}


def test_a_word_that_a_description_does_not_know_is_an_error(tmp_path):
    with pytest.raises(BadInput, match=r"e4_steps.toml, \[\[cells\]\]: nothing is called payloads"):
        described(tmp_path, "[[cells]]\npayloads=[48]")


BUILT = Path(__file__).resolve().parents[2] / "build/gcc/bench/pooled-bench"


@pytest.mark.skipif(not BUILT.is_file(), reason="pooled-bench is not built")
def test_the_descriptions_speak_of_variants_and_workloads_that_there_are():
    workloads = program.load("gcc", BUILT).workloads
    # `poolbench run -w e5` builds that alone, in a checkout that has built nothing yet.
    some = {unit.partition("/")[0] for unit in build.built_units(BUILT.parents[1])}
    for each in description.load().values():
        if some and each.name not in some:
            continue
        assert each.name in workloads
        variants = workloads[each.name].contenders
        named = [v for part in each.cells if part.variant != "all" for v in part.variant]
        named += [*each.measure, *each.base]
        assert set(named) <= set(variants), each.name


def test_a_quick_run_builds_with_other_toolchains_what_a_published_table_needs_and_no_more():
    described, all_of_it = description.load(), Selection()
    built = matrix.wanted_units("quick", described, all_of_it, "gcc", "gcc")
    assert {"create_drop/.*", "e14_programs/pooled"} <= set(built) and "e5_handoff/tbb_scalable" not in built
    of_article = {f"e1_list_churn/{name}" for name in ("new", "make_shared", "boost_fast_pool", "pooled")}
    assert set(matrix.wanted_units("quick", described, all_of_it, "clang-libcxx", "gcc")) == of_article
    assert matrix.wanted_units("quick", described, all_of_it, "clang-libcxx", "clang-libcxx") == built
    assert "e1_list_churn/new" in matrix.wanted_units("full", described, all_of_it, "clang-libcxx", "gcc")


CELLS = [
    support.cell(workload="e1_list_churn"),
    support.cell(workload="e10_resident", contender="new"),
    support.cell(workload="e1_list_churn", malloc="jemalloc"),
]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"workload": ["e7"]}, "no workload 'e7'; there are: e10_resident, e1_list_churn"),
        ({"workload": ["e"]}, "no workload 'e'"),
        ({"contender": ["pooled"]}, "there are: make_shared, new"),
        ({"variant": ["none_such"]}, f"no variant 'none_such'; there are: {support.cell().variant}"),
        ({"contender": ["new"], "malloc": ["jemalloc"]}, "no cell of contender new; malloc jemalloc at once"),
    ],
)
def test_a_selection_that_matches_nothing_is_an_error_that_names_what_there_is(words, message):
    with pytest.raises(BadInput, match=message):
        Selection.of(**words).filter(CELLS)


def test_every_workload_of_the_benchmark_has_a_description():
    """Without one a report shows the raw name, a table by default rules, and no question."""
    bench = description.DIRECTORY.parent.parent / "bench"
    of_try = {"own_type", "own_pattern"}
    there = {path.parent.name for path in bench.glob("*/workload.hpp")} - of_try
    assert "e9_recycled" in there
    assert there == set(description.load())
    assert all(each.title != each.name and each.question for each in description.load().values())


PUBLISHED = sorted((description.DIRECTORY.parents[1] / "bench/results").glob("*-quick.jsonl.xz"))


@pytest.mark.skipif(not PUBLISHED, reason="the results are not part of this copy")
def test_every_figure_that_a_workload_measures_has_a_heading_of_its_own():
    """Without one a table shows the raw name, or the heading of another column."""
    described = description.load()
    results = read_measured(PUBLISHED[-1])
    names = {(cell.workload, name) for cell, sample in results.samples for name in sample.get("figures", {})}
    assert {workload for workload, _ in names} >= {"e4_pool_patterns", "e8_teardown", "e12_latency"}
    assert [each for each in sorted(names) if each[1] not in described[each[0]].figures] == []
    taken = {"ns/op", "95% interval", "runs"}
    assert not any(taken & set(each.figures.values()) for each in described.values())
