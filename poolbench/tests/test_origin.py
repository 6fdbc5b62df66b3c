# SPDX-License-Identifier: BSL-1.0
"""Before any figure stands of which file it is, of which machine and date, and whether that machine was busy."""

import re
import subprocess
import sys

import pytest

from poolbench import where
from poolbench.report import findings
from poolbench.results.read import read
from poolbench.tests import support
from poolbench.tests.support import invoke
from poolbench.tests.test_analysis import noisy, times


def a_file(path, **how):
    """Of a busy machine that is not this one."""
    how |= {"busy_share": 0.4, "time": "2026-11-02T12:30:00+00:00"}
    return support.results_file(path, times(pooled=2.0, make_shared=2.0), **how)


@pytest.mark.parametrize("command", ["table", "claims"])
def test_an_answer_begins_with_its_file_machine_date_and_load(tmp_path, command):
    path = a_file(tmp_path / "a.jsonl")
    line = invoke(command, path).stdout.splitlines()[0]
    assert line.startswith("a.jsonl: Test CPU, 2 cores (NOT this machine); measured 2026-11-02 12:30 UTC; ")
    assert "BUSY with other work (40% of its processors)" in line


def test_a_page_says_the_same_and_so_does_the_command_that_draws_it(tmp_path):
    path = a_file(tmp_path / "a.jsonl", finished=False)
    result = invoke("report", path, "--output", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.stderr
    for text in (result.stderr, (tmp_path / "page.html").read_text()):
        assert "a.jsonl: Test CPU, 2 cores" in text and "measured 2026-11-02 12:30 UTC" in text
        assert "BUSY with other work" in text and "UNFINISHED" in text


@pytest.mark.parametrize("busy", [(0.4, 0.0), (0.0, 0.4)])
def test_a_run_on_a_busy_machine_is_compared_with_none(tmp_path, busy):
    values = times(pooled=2.0, make_shared=2.0)
    before, after = (read(support.results_file(tmp_path / f"{i}", values, busy_share=b)) for i, b in enumerate(busy))
    assert findings.change(before, after, {}).startswith("there is no comparison with the run before")


def test_what_a_busy_machine_measured_decides_and_recommends_nothing(tmp_path):
    values = {support.cell(name, workload="create_drop", payload=48): noisy(ns)
              for name, ns in (("new", 9.0), ("make_shared", 8.0), ("pooled", 2.0))}  # fmt: skip
    for busy in (0.0, 0.4):
        path = support.results_file(tmp_path / f"{busy}.jsonl", values, busy_share=busy)
        page = tmp_path / "page.html"
        said = invoke("table", "--summary", path).stdout
        invoke("report", path, "--output", page)
        of_page = re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL)
        for text in (" ".join(said.split()), of_page):
            decided = re.search(r"…[\d.]+\)(</span>)? (ahead|even|behind)", text)
            assert bool(decided) == (busy == 0.0)
            assert "ahead in 1 of 1 works" not in text or not busy
            assert ("so nothing is recommended: run it again while nothing else runs" in text) == (busy > 0)


@pytest.mark.parametrize(
    ("redirection", "status", "message"),
    [
        (">&-", 2, "standard output is closed: direct it to a file, or to /dev/null"),
        (">/dev/full", 1, "standard output cannot be written: No space left on device"),
    ],
)
def test_standard_output_that_cannot_be_written_is_named(tmp_path, redirection, status, message):
    command = f'"{sys.executable}" -m poolbench table "{a_file(tmp_path / "a.jsonl")}" {redirection}'
    done = subprocess.run(["sh", "-c", command], cwd=where.PACKAGE.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, f"poolbench: {message}\n")
