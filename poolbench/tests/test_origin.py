# SPDX-License-Identifier: BSL-1.0
"""Before any figure stands of which file it is, of which machine and date, and whether that machine was busy."""

import io
import os

import pytest
from typer.testing import CliRunner

from poolbench import cli, options
from poolbench.results import record
from poolbench.results.read import read
from poolbench.system import hardware
from poolbench.tests import support
from poolbench.tests.test_analysis import noisy

OURS, THEIRS = support.cell("pooled"), support.cell("make_shared")


def a_file(path, finished=True, **session):
    """Of a busy machine that is not this one."""
    begun = support.session(busy_share=0.4, **session)
    begun["time"] = "2026-11-02T12:30:00+00:00"
    samples = [support.sample(cell, ns) for cell in (OURS, THEIRS) for ns in noisy(2.0)]
    end = [record.line("finished", runs=len(samples), failed=0)] if finished else []
    return support.write(path, begun, *samples, *end)


@pytest.mark.parametrize("command", ["table", "claims"])
def test_an_answer_begins_with_its_file_machine_date_and_load(tmp_path, command):
    path = a_file(tmp_path / "a.jsonl")
    line = CliRunner().invoke(cli.app, [command, str(path)]).stdout.splitlines()[0]
    assert line.startswith("a.jsonl: Test CPU, 2 cores (NOT this machine); measured 2026-11-02 12:30 UTC; ")
    assert "BUSY with other work (40% of its processors)" in line


def test_a_page_says_the_same_and_so_does_the_command_that_draws_it(tmp_path):
    path = a_file(tmp_path / "a.jsonl", finished=False)
    result = CliRunner().invoke(cli.app, ["report", str(path), "--output", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.stderr
    for text in (result.stderr, (tmp_path / "page.html").read_text()):
        assert "a.jsonl: Test CPU, 2 cores" in text and "measured 2026-11-02 12:30 UTC" in text
        assert "BUSY with other work" in text and "UNFINISHED" in text


def test_a_file_that_is_not_kept_is_not_named_and_an_unknown_machine_is_not_another(tmp_path):
    path = support.write(tmp_path / "r.jsonl", support.sample(OURS, 1.0))
    said = read(path).origin(hardware.describe(), "results not kept")
    assert said.startswith("results not kept: unknown processor") and "NOT this machine" not in said
    assert "whether it was busy is not known" in said


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_breaks_no_word_and_a_pipe_gets_each_sentence_in_one_line(monkeypatch):
    monkeypatch.setattr(options.shutil, "get_terminal_size", lambda: os.terminal_size((40, 24)))
    text = "a sentence of words: " + "word " * 12 + "/a/path/that/is/longer/than/any/line/of/this/terminal.jsonl\n"
    lines = options._fitted(text, Terminal()).split("\n")
    assert " ".join(lines).split() == text.split() and lines[-1] == ""
    assert all(len(line) <= 40 for line in lines if "/" not in line) and len(lines) > 3
    assert options._fitted("  indented " + "word " * 12, Terminal()).split("\n")[1].startswith("    word")
    assert options._fitted(text, io.StringIO()) == text
