# SPDX-License-Identifier: BSL-1.0
"""The page and the picture as text; what a browser makes of them is in test_page.py."""

import errno
import html
import json
import os
import re
import xml.etree.ElementTree as ElementTree

import pytest
from typer.testing import CliRunner

from poolbench import cli
from poolbench.analysis import estimate, headlines, rows
from poolbench.analysis.claims import Claim, Verdict
from poolbench.plan import description
from poolbench.plan.description import Description, Headline
from poolbench.report import charts, findings, page
from poolbench.results.read import read
from poolbench.tests import support
from poolbench.tests.test_analysis import noisy

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def quick(quick_report):
    return quick_report.results, quick_report.path.read_text()


def test_the_page_of_a_quick_run_on_nine_mallocs_weighs_less_than_two_and_a_half_megabytes(quick):
    assert len(quick[1].encode()) < 2.5 * MEGABYTE


def test_the_page_refers_to_nothing_outside_itself(quick):
    markup = quick[1]
    assert "<script" not in markup
    assert not re.search(r"""(src|href|action|data|poster)\s*=\s*["']?(?!#|data:,)[^"'\s>]+""", _without_svg(markup))
    assert "@import" not in markup and "url(" not in _without_svg(markup)


def _without_svg(markup):
    return re.sub(r"<svg.*?</svg>", "", markup, flags=re.DOTALL)


def test_every_experiment_has_its_charts_and_tables(quick):
    results, text = quick
    for group in rows.groups(results, description.load()):
        assert f'<section id="{group.description.name}"' in text
        assert html.escape(group.title) in text
    for each in description.load().values():
        for chart in each.charts:
            assert html.escape(chart.title) in text, chart.title


def test_the_tables_hold_the_figures_of_every_cell(quick):
    results, text = quick
    from poolbench.tables import interval, number

    for row in rows.rows(results, description.load()):
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
    text = page.render(read(support.results_file(tmp_path / "r.jsonl", values)), {})
    assert "<script>alert" not in text


def test_a_page_of_one_run_and_one_cell_can_be_drawn(tmp_path):
    results = read(support.results_file(tmp_path / "r.jsonl", {support.cell(): [2.0]}))
    text = page.render(results, description.load())
    assert "nothing to compare" in text and 'id="chart-w-0-0"' in text


def test_the_picture_is_an_image_with_a_title_that_follows_the_readers_scheme(quick):
    svg = page.picture_svg(quick[0], description.load())
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg") and root.get("role") == "img"
    assert root[0].tag.endswith("title") and "pooled takes" in root[0].text
    assert "prefers-color-scheme:dark" in svg and "<script" not in svg


def invoke(*words):
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def test_the_report_lies_beside_the_results_and_its_path_is_printed(tmp_path):
    path = support.results_file(tmp_path / "r.jsonl", {support.cell(): noisy(2.0)})
    result = invoke("report", path)
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'r.html'}\n")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_the_picture_cuts_no_name_and_needs_one_line_for_each(quick):
    svg = page.picture_svg(quick[0], description.load())
    found = headlines.rows(estimate.estimates(quick[0]), description.load(), quick[0].installed)
    works = [each.headline.work for each in headlines.times(found) if each.over_best]
    assert works and "…<" not in svg
    assert all(f">{work}<" in svg for work in works)


def test_a_picture_of_nothing_and_a_missing_file_are_bad_input(tmp_path):
    path = support.results_file(tmp_path / "r.jsonl", {support.cell(): noisy(2.0)})
    assert invoke("report", path, "--picture", tmp_path / "p.svg").exit_code == 2
    assert invoke("report", tmp_path / "absent.jsonl").exit_code == 2


def test_a_disk_that_is_full_leaves_the_page_of_last_time(tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    page.write(path, "last time")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(page.os, "replace", full)
    with pytest.raises(page.CannotWrite, match="No space left"):
        page.write(path, "this time")
    assert path.read_text() == "last time"
    assert os.listdir(tmp_path) == ["r.html"]


# --- charts


def test_lines_are_drawn_along_an_axis_and_a_panel_a_malloc(tmp_path):
    values = {
        support.cell(contender, malloc, step=step): noisy(10.0 + step, share=0)
        for contender in ("pool", "make_shared")
        for malloc in ("glibc", "jemalloc")
        for step in (1, 64)
    }
    chart = description.Chart("lines", "E4", rows=["malloc"], x="step", x_title="enlarge step")
    frame = estimate.estimates(read(support.results_file(tmp_path / "r.jsonl", values)))
    panels = list(charts.panels(chart, Description("w", "W"), frame))
    assert [label for label, _, _ in panels] == ["malloc glibc", "malloc jemalloc"]
    assert "make_shared: from 11.0 to 74.0" in panels[0][2]
    spec = panels[0][1].to_dict()
    assert spec["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"


def test_published_figures_are_marks_in_nanoseconds(tmp_path):
    published = description.Published("a machine", "s", 4.0, {}, [{"contender": "make_shared", "value": 38.1}])
    described = Description("w", "W", published=published)
    frame = estimate.estimates(read(support.results_file(tmp_path / "r.jsonl", {support.cell(): noisy(150.0)})))
    ((_, chart, _),) = charts.panels(description.Chart("dots", "x"), described, frame)
    assert chart.to_dict()["layer"][2]["data"]["values"][0]["published"] == pytest.approx(152.4)


def test_a_chart_of_a_single_run_has_no_endless_interval(tmp_path):
    frame = estimate.estimates(read(support.results_file(tmp_path / "r.jsonl", {support.cell(): [2.0]})))
    ((_, chart, _),) = charts.panels(description.Chart("dots", "x"), Description("w", "W"), frame)
    assert "Infinity" not in json.dumps(chart.to_dict())


# --- words


def headline_rows(tmp_path, ours):
    values = {support.cell("make_shared"): noisy(20.0), support.cell("make_shared", "tcmalloc"): noisy(10.0)}
    values |= {support.cell("pooled"): noisy(ours)}
    described = {"w": Description("w", "W", headlines=[Headline("the work", {})])}
    from poolbench.analysis import headlines

    return headlines.rows(estimate.estimates(read(support.results_file(tmp_path / "r.jsonl", values))), described)


@pytest.mark.parametrize(
    ("ours", "glibc", "best", "said", "kind"),
    [
        (5.0, "ahead in 1 of 1 works", "ahead in 1 of 1 works", "2.00×", "ahead"),
        (10.0, "ahead in 1 of 1 works", "ahead in 0 of 1 works", "Even: “the work”", "undecided"),
        (20.0, "ahead in 0 of 1 works", "ahead in 0 of 1 works", "Behind: “the work” (0.5", "behind"),
    ],
)
def test_the_first_answers_say_against_whom_and_by_how_much(tmp_path, ours, glibc, best, said, kind):
    found = findings.answers(headline_rows(tmp_path, ours), [])
    assert [each.figure for each in found[:2]] == [glibc, best]
    assert said.split("(")[0].replace("2.00", "")[:5] in found[1].said[0] and found[1].kind == kind


def test_where_not_to_use_it_is_an_answer_of_its_own(tmp_path):
    lost = [findings.Loss("E5", "tbb", 8.0, 10.0, 1.25, 1.2, 1.3)]
    found = findings.answers(headline_rows(tmp_path, 20.0), lost)[2]
    assert found.figure == "1 measurements where something is faster"
    assert (
        found.said[0].startswith("Behind a malloc: 0.5") and "tbb is 1.25× (1.20…1.30) as fast in “E5”" in found.said[1]
    )
    assert findings.answers(headline_rows(tmp_path, 5.0), [])[2].figure == "nothing measured is significantly faster"


def test_a_work_of_which_a_malloc_was_not_measured_has_no_ratio_in_the_answers(tmp_path):
    from poolbench.analysis import headlines

    values = {support.cell("make_shared"): noisy(20.0), support.cell("pooled"): noisy(1.0)}
    described = {"w": Description("w", "W", headlines=[Headline("the work", {})])}
    frame = estimate.estimates(read(support.results_file(tmp_path / "r.jsonl", values)))
    best = findings.answers(headlines.rows(frame, described, ["glibc", "tcmalloc"]), [])[1]
    assert best.figure == "not measured" and "Not every installed malloc" in best.said[1]


def test_claims_are_counted_in_words():
    def claim(by, verdict):
        return Claim(by, "text", "w", "", verdict, [])

    said = findings.of_claims([claim("A", Verdict.holds), claim("A", Verdict.fails), claim("A", Verdict.fails),
                               claim("pooled", Verdict.unknown)])  # fmt: skip
    assert said == ["Of the published claims, 1 holds and 2 do not hold."]


def test_where_something_else_is_surely_faster_is_told(tmp_path):
    described = {"w": Description("w", "W", limits=["raw"])}
    values = {
        support.cell("pooled"): noisy(10.0),
        support.cell("quicker"): noisy(8.0),
        support.cell("raw"): noisy(1.0),
        support.cell("make_shared", "tcmalloc"): noisy(9.0),
        support.cell("alike"): noisy(9.9, share=0.1),
        support.cell("pooled_local"): noisy(5.0),
    }
    results = read(support.results_file(tmp_path / "r.jsonl", values))
    lost = findings.losses(rows.groups(results, described), estimate.collect(results))
    assert [loss.contender for loss in lost] == ["quicker", "make_shared on tcmalloc"]
