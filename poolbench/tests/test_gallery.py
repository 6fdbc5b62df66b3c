# SPDX-License-Identifier: BSL-1.0
"""`poolbench gallery` and `poolbench history`: several results files on one page."""

import re

import pytest
from typer.testing import CliRunner

from poolbench import cli
from poolbench.report import across_files, drawn, gallery, history
from poolbench.results import record
from poolbench.system import hardware
from poolbench.tests import support


def a_file(directory, stem, cpu, gain, commit="abc", finished=True):
    """A finished run of create and drop on two mallocs, `gain` times as fast as the better one."""
    cells = {
        support.cell(contender, malloc, workload="create_drop", payload=48): ns
        for contender, malloc, ns in (
            ("make_shared", "glibc", 20.0), ("make_shared", "tcmalloc", 10.0), ("pooled", "glibc", 10.0 / gain),
        )
    }  # fmt: skip
    machine = {**support.session()["machine"], "cpu": cpu}
    named = [{"name": name, "version": "1", "path": ""} for name in ("glibc", "tcmalloc")]
    samples = [
        support.sample(cell, ns * wide) for cell, ns in cells.items() for wide in (0.99, 0.995, 1.0, 1.005, 1.01)
    ]
    end = [record.line("finished", runs=15, failed=0)] if finished else []
    directory.mkdir(exist_ok=True)
    session = support.session(machine=machine, mallocs=named, commit=commit)
    session["time"] = f"2026-11-{stem[6:8]}T12:00:00+00:00"
    return support.write(directory / f"{stem}.jsonl", session, *samples, *end)


@pytest.fixture
def results(tmp_path):
    directory = tmp_path / "results"
    a_file(directory, "20261101T120000Z-quick", "Processor <A>", 2.0, "1" * 40)
    a_file(directory, "20261102T120000Z-quick", "Processor <A>", 4.0, "2" * 40 + "+changes")
    a_file(directory, "20261103T120000Z-quick", "Processor B", 8.0, finished=False)
    a_file(directory, "20261104T120000Z-smoke", "Processor C", 8.0)
    support.write(directory / "20261105T120000Z-quick.jsonl", {"record": "session", "schema": 1})
    return directory


def run(*words):
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def test_the_gallery_has_the_newest_file_of_each_machine(results):
    result = run("gallery")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{results / 'gallery.html'}\n"
    page = (results / "gallery.html").read_text()
    assert "What pooling gains on 2 machines" in page
    assert "Processor &lt;A&gt;" in page and "Processor B" in page and "Processor C" not in page
    assert "4.00× (3." in page and "8.00× (7." in page and "2.00× (" not in page
    assert "UNFINISHED" in page and page.count("origin warning") == 1
    assert "left out: " in result.stderr and "20261105T120000Z-quick.jsonl" in result.stderr


def test_the_gallery_begins_with_a_verdict_of_each_machine(results):
    run("gallery")
    page = (results / "gallery.html").read_text()
    assert page.index("Against glibc's malloc: ahead in 1 of 1 works") < page.index("<figure")
    assert page.index("Against the best malloc: ahead in 1 of 1 works") < page.index("<figure")
    assert re.search(r"Of pooled's own promises, \d+ (is|are) undecided", page)


def test_a_long_name_of_a_work_is_broken_into_lines_and_not_cut_off():
    name = "1 KiB items from a pool that grows by 64, freed one by one and in bulk"
    data = [{"work": name, "machine": "A", "ratio": 2.0, "low": 1.5, "high": 2.5}]
    svg = drawn.draw("x", "x", "x", across_files.machines(data, [name], ["A"])).svg
    text = "".join(re.findall(r">([^<>]+)<", svg)).replace(" ", "")
    assert name.replace(" ", "") in text and "…" not in text


def test_a_short_history_has_a_column_a_file_and_a_long_one_a_row(results):
    machine = gallery.Machine("file", "", True, {"work a": None, "work b": None}, "")
    assert history.sheet([machine], "best", "x").columns == ["work", "file"]
    sheet = history.sheet([machine] * 2, "best", "x")
    assert sheet.columns == ["measured, commit", "work a", "work b"] and len(sheet.rows) == 2


def test_the_gallery_compares_the_files_that_are_named(results, tmp_path):
    files = sorted(results.glob("2026110[12]*.jsonl"))
    result = run("gallery", *files, "--output", tmp_path / "own.html")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "own.html").read_text()
    assert "2026-11-01 12:00 UTC" in page and "2026-11-02 12:00 UTC" in page  # one machine: told apart by the date
    assert "2.00× (" in page and "4.00× (" in page


def test_the_page_fetches_nothing_and_what_a_file_says_is_text(results):
    run("gallery")
    page = (results / "gallery.html").read_text()
    assert "default-src 'none'" in page and not re.search(r"(src|href)=.http", page)
    assert "<A>" not in page


def test_no_results_and_a_file_that_is_none_are_told(tmp_path):
    assert run("gallery").exit_code == 2
    result = run("gallery", tmp_path / "nowhere.jsonl")
    assert result.exit_code == 2 and "cannot be read" in result.stderr
    assert run("history").exit_code == 2


def test_the_history_is_of_this_machine_from_the_oldest_to_the_newest(results, monkeypatch):
    machine = {**support.session()["machine"], "cpu": "Processor <A>"}
    monkeypatch.setattr(hardware, "describe", lambda: machine)
    result = run("history", "--over", "best")
    assert result.exit_code == 0, result.stderr
    first, second = (
        result.stdout.index("2026-11-01 12:00 111111111"),
        result.stdout.index("2026-11-02 12:00 222222222+"),
    )
    assert first < second and "2026-11-03" not in result.stdout
    assert "2.00× (" in result.stdout[first:second] and "4.00× (" in result.stdout[second:]
    page = (results / "history.html").read_text()
    assert "from the oldest to the newest: 2.00, 4.00." in page


def test_a_work_that_no_file_has_is_refused(results):
    result = run("history", "-w", "e7")
    assert result.exit_code == 2 and "no workload 'e7'; there are: create_drop" in result.stderr
