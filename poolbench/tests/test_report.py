# SPDX-License-Identifier: BSL-1.0
"""The page and the picture as text; what a browser makes of them is in test_page.py."""

import html
import re
import xml.etree.ElementTree as ElementTree

import pytest

from poolbench import tables
from poolbench.analysis import estimate, headlines, rows
from poolbench.plan import description
from poolbench.plan.cell import Cell
from poolbench.plan.description import Description
from poolbench.report import chart, findings, page, published
from poolbench.results.read import read
from poolbench.tests import support
from poolbench.tests.test_analysis import headline, noisy, results, times

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def quick(quick_report):
    return quick_report[0], quick_report[1].read_text()


def test_the_page_of_a_quick_run_on_nine_mallocs_weighs_less_than_two_and_a_half_megabytes(quick):
    assert len(quick[1].encode()) < 2.5 * MEGABYTE


def test_the_page_refers_to_nothing_outside_itself(quick):
    assert "<script" not in quick[1] and "@import" not in quick[1]
    markup = re.sub(r"<svg.*?</svg>", "", quick[1], flags=re.DOTALL)
    assert not re.search(r"""(src|href|action|data|poster)\s*=\s*["']?(?!#|data:,)[^"'\s>]+""", markup)
    assert "url(" not in markup


def test_every_experiment_has_its_charts_and_tables(quick):
    found, text = quick
    for group in rows.groups(found, description.load()):
        assert f'<section id="{group.description.name}"' in text
        assert html.escape(group.title) in text


def test_the_tables_hold_the_figures_of_every_cell(quick):
    found, text = quick
    from poolbench.tables import interval, number

    for row in rows.rows(found, description.load()):
        if row.time:
            assert f">{number(row.time.median)}<" in text
            assert f">{interval(row.time)}<" in text


def test_claims_failures_and_the_machine_are_told(quick):
    text = quick[1]
    assert all(verdict in text for verdict in ("holds", "does not hold", "undecided"))
    assert "no result within 60 s" in text and "half a &lt;b&gt;result&lt;/b&gt;" in text
    assert "Test CPU, 2 cores, 1024 MiB" in text and "0" * 64 in text and "a note" in text


def test_names_from_a_results_file_can_not_become_markup(tmp_path):
    evil = "</script><script>alert(1)</script>"
    values = {support.cell(name, variant=evil): [1.0, 2.0, 3.0] for name in ("make_shared", "pooled", evil)}
    text = page.render(results(tmp_path, values), {})
    assert "<script>alert" not in text


def test_the_picture_is_an_image_with_a_title_that_follows_the_readers_scheme(quick):
    svg = chart.picture(page.judge(quick[0], description.load()).timed).alone()
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg") and root.get("role") == "img"
    assert root[0].tag.endswith("title") and "pooled takes" in root[0].text
    assert "prefers-color-scheme:dark" in svg and "<script" not in svg


# --- charts


def test_an_axis_has_figures_on_both_sides_of_zero():
    lines = [
        chart.Line(name, [chart.Mark("pooled", chart.Figure(value, value, value))])
        for name, value in (("a", -196.0), ("b", 70.0))
    ]
    drawn = chart.draw("gain", "gain", "percent", lines).drawn
    assert re.findall(r'text-anchor="middle" fill="currentColor">(-?\d+)<', drawn) == ["-150", "-100", "-50", "0", "50"]


def test_a_chart_has_a_row_a_contender_a_mark_a_malloc_and_no_endless_interval(tmp_path):
    values = times(a=10.0, a_on_tcmalloc=50.0) | {support.cell("pooled"): [2.0]}
    (group,) = rows.groups(results(tmp_path, values), {})
    drawn = chart.of_group(group)
    root = ElementTree.fromstring(drawn.svg)
    counts = [len(root.findall(f".//*[@class='{name}']")) for name in ("mark", "whisker")]
    assert counts == [3 + 3, 3]  # with the legend
    assert "inf" not in drawn.svg and "ns per operation of 2 contenders: pooled 2.00" in drawn.words


# --- words


def headline_rows(tmp_path, ours):
    return [headline(tmp_path, times(make_shared=20.0, make_shared_on_tcmalloc=10.0, pooled=ours))]


@pytest.mark.parametrize(
    ("ours", "best", "said", "kind"),
    [
        (5.0, "ahead in 1 of 1 works", "ahead in 1: from 2.0", "ahead"),
        (10.0, "ahead in 0 of 1 works", "even in 1: from 1.0", "undecided"),
        (20.0, "ahead in 0 of 1 works", "behind in 1: from 0.5", "behind"),
    ],
)
def test_the_first_answers_say_against_whom_and_by_how_much(tmp_path, ours, best, said, kind):
    found = findings.answers(headline_rows(tmp_path, ours), [])[1]
    assert (found.figure, found.kind) == (best, kind) and f"of 1 works pooled is {said}" in found.said[1]


def test_where_not_to_use_it_is_an_answer_of_its_own(tmp_path):
    lost = [findings.Loss("E5", "tbb", 8.0, 10.0, 1.25, 1.2, 1.3)]
    found = findings.answers(headline_rows(tmp_path, 20.0), lost)[2]
    assert found.figure == "one measurement where something is faster"
    assert found.said == ["tbb is 1.25× (1.20…1.30) as fast in “E5”."]
    assert findings.answers(headline_rows(tmp_path, 5.0), [])[2].figure == "nothing measured is surely faster"


def test_where_something_else_is_surely_faster_is_told(tmp_path):
    described = {"w": Description("w", "W", limits=["raw"])}
    values = times(pooled=10.0, raw=1.0, make_shared_on_tcmalloc=9.0, pooled_local=5.0) | times(0.1, alike=9.9)
    found = results(tmp_path, values | {support.cell("quicker", scale=0.5): noisy(8.0)})
    lost = findings.losses(rows.groups(found, described), estimate.collect(found))
    assert [loss.contender for loss in lost] == ["quicker", "make_shared on tcmalloc"]


def test_what_a_headline_loses_is_told_where_not_to_use_it_whatever_its_measure(tmp_path):
    """The headline's own verdict: percentiles and processor times are losses, too."""
    lead = headlines.Lead("snmalloc", 0.5, 0.4, 0.6)
    work = headlines.Headline("slowest drop", {}, measure="p999_ns")
    row = headlines.Row(work, "w", {"snmalloc": {"median": 10.0}}, {"pooled": {"median": 20.0}}, None, None, lead)
    (loss,) = findings.losses([], {}, [row])
    assert (loss.where, loss.contender, loss.theirs, loss.ours) == (
        "slowest drop",
        "make_shared on snmalloc",
        10.0,
        20.0,
    )
    assert (loss.ratio, loss.high) == (2.0, 2.5)


def test_a_few_runs_that_lie_apart_by_chance_are_no_loss(tmp_path):
    values = {cell: ns[:2] for cell, ns in times(pooled=10.0, make_shared_on_tcmalloc=9.0).items()}
    found = results(tmp_path, values)
    assert not findings.losses(rows.groups(found, {}), estimate.collect(found))


def test_our_library_to_preload_stands_beside_the_mallocs_and_the_first_answer_is_preload_or_edit(tmp_path):
    values = times(make_shared=20.0, make_shared_on_tcmalloc=10.0, pooled=4.0)
    values[support.cell("make_shared", malloc="pooled-new")] = noisy(8.0)
    row = headline(tmp_path, values)
    assert row.best == "tcmalloc" and "pooled-new" not in row.mallocs
    assert ">pooled-new<" in chart.picture([row]).drawn
    sheet = tables.summary_sheet([row])
    assert dict(zip(sheet.columns, sheet.rows[0], strict=True))["pooled-new"] == tables.number(row.preloaded["median"])
    (answer,) = findings.first([row])
    assert answer.question == "Preload or edit?" and answer.figure.startswith(
        "edit what is hot, and preload pooled-new"
    )
    assert "is ahead of the best other malloc in 1 of 1 works" in answer.said[0]
    assert findings.sentences([row], [], "")[0].startswith("Preload or edit? Edit what is hot")
    assert not findings.first([row], busy=True)
    assert not findings.first([headline(tmp_path, times(make_shared=20.0, pooled=4.0))])


@pytest.mark.parametrize(
    ("low", "high", "edited", "figure"),
    [
        (0.8, 1.2, 1.2, "not decided"),
        (0.8, 1.2, 2.0, "edit what is hot"),
        (0.5, 0.9, 1.2, "preload the best malloc"),
        (1.1, 1.2, 1.2, "preload pooled-new"),
    ],
)
def test_no_malloc_is_recommended_while_most_works_are_undecided(low, high, edited, figure):
    preload, edit = headlines.Lead("tcmalloc", 1.0, low, high), headlines.Lead("", edited, edited / 1.3, 2.5)
    work = headlines.Headline("a work", {})
    row = headlines.Row(work, "w", {}, {}, None, None, None, preload_over_best=preload, edit_over_preload=edit)
    (answer,) = findings.first([row])
    assert answer.figure == figure


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_terminal_breaks_no_word_of_a_table(width, monkeypatch, capsys):
    names = [f"contender_{i}, published" for i in range(9)]
    sheet = tables.Sheet(
        "A title", ["", *names], [["pooled::make_shared", *(["undecided (1.00×)"] * 9)]], "a note", {""}
    )
    monkeypatch.setattr(tables, "console", lambda: tables.Console(width=width, highlight=False, markup=False))
    tables.print_text(sheet)
    shown = capsys.readouterr().out
    assert all(len(line) <= width for line in shown.splitlines())
    for word in ("undecided", "published"):
        assert shown.count(word) == 9
    assert all(f"contender_{i}," in shown for i in range(9))
    assert shown.count("pooled::make_shared") == shown.count("A title") > 1
    assert shown.count("a note") == 1


def test_each_published_table_has_a_figure_for_each_of_its_columns_and_names_a_workload():
    works = description.load()
    for table in published.load():
        assert table["workload"] in works
        assert all(len(row["published"]) == len(table["columns"]) for row in table["rows"]), table["title"]


def test_a_published_figure_stands_beside_ours_and_what_was_not_measured_is_said(tmp_path):
    cells = [("new", 200.0), ("make_shared", 100.0)]
    rows = [
        {"cell": (cell := Cell("e1_list_churn", "code", name, "glibc", "gcc")), **vars(cell), "measure": "ns_per_op",
         "values": [time], "n": 1, "median": time, "low": time, "high": time}
        for name, time in cells
    ]  # fmt: skip
    (found,) = published.comparisons(rows)
    gcc = dict(zip(found.sheet.columns, found.sheet.rows[0], strict=True))
    assert (gcc["new, published"], gcc["new, here"]) == ("69.0 (1.81×)", "50.0 (2.00×)")
    assert gcc["fast_pool, here"] == "not measured"
    assert "Ryzen 7 5800H" in found.sheet.note
    assert len(found.pictures) == 1
    assert [row[0] for row in found.sheet.rows[2:4]] == ["Clang, libc++: no clang-libcxx", "GCC, tcmalloc: no tcmalloc"]


def test_a_published_gain_is_that_of_a_pool_of_the_published_structure_and_ours_stands_beside_it():
    times_at = {  # step -> of malloc, of a pool of the published structure, and of ours
        1: (100.0, 90.0, 50.0),
        64: (100.0, 60.0, 40.0),
    }
    names = ("boost_intrusive_new", "boost_intrusive_free_list", "memorypool")
    found = [
        {"cell": (cell := Cell("e4_pool_patterns", "bulk", name, "glibc", "gcc", step=step)), **vars(cell),
         "measure": "ns_per_op", "values": [time], "n": 1, "median": time, "low": time, "high": time}
        for step, measured in times_at.items()
        for name, time in zip(names, measured, strict=True)
    ]  # fmt: skip
    (told,) = published.comparisons(found)
    at = {row[0]: dict(zip(told.sheet.columns, row, strict=True)) for row in told.sheet.rows}
    assert (at["pattern 1"]["glibc, published"], at["pattern 1"]["glibc, here"]) == ("44.0", "40.0")
    assert at["pattern 1, pooled"]["glibc, here"] == "60.0"
    assert at["pattern 2"]["glibc, here"] == "not measured"
    assert "against the enlarge step" in told.pictures[1].title and ">step 64<" in told.pictures[1].drawn


def test_the_report_names_the_mallocs_that_were_not_there(tmp_path):
    file = support.results_file(
        tmp_path / "r.jsonl", times(new=20.0), mallocs=[{"name": "glibc"}, {"name": "jemalloc"}]
    )
    text = page.render(read(file), {})
    assert re.search(r"Not there, and so no rival here: tcmalloc, [^<]*snmalloc", text)
    assert "Not there" not in page.render(results(tmp_path, times(new=20.0)), {})  # a file of long ago does not say
