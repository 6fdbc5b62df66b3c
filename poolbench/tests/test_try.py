# SPDX-License-Identifier: BSL-1.0
"""`poolbench try`: what it says of the user's code, and the command on a stand-in for the executable. That the patterns
compile and are right is a part of the benchmark's smoke run."""

import dataclasses
import errno
import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from poolbench.commands import try_own
from poolbench.errors import BadInput, Failed
from poolbench.plan import program
from poolbench.plan.selection import Selection
from poolbench.system import hardware, mallocs, own, toolchains
from poolbench.system.toolchains import Probed
from poolbench.tests import support
from poolbench.tests.support import invoke

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
HEADER = """
#pragma once
#include "size.hpp"
namespace my {
struct Packet {
    explicit Packet(int n) : length(n) {}
    Packet(const Packet&) = delete;
    int length;
    char bytes[SIZE];
};
}
"""
GCC = Probed(toolchains.TOOLCHAINS[0], "g++", "libstdc++")


@pytest.fixture
def header(tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include/size.hpp").write_text("#pragma once\n")
    path = tmp_path / "packet.hpp"
    path.write_text(HEADER)
    return path


def why_not(path, type_name="my::Packet", arguments="1500"):
    compiled, linked = own.split_flags("-Iinclude -DSIZE=64", path.parent)
    asked = own.Own(path, type_name, arguments, compiled, linked)
    with pytest.raises(BadInput) as refused:
        own.built(asked, GCC, lambda text: pytest.fail(f"it was built: {text}"))
    return str(refused.value)


@pytest.fixture(autouse=True)
def builds_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(own.build, "BUILDS", tmp_path / "builds")


@needs_compiler
def test_a_type_that_can_not_be_made_from_the_arguments_is_refused_with_the_compilers_first_error(header):
    said = why_not(header, arguments='"text"')
    first, error = said.splitlines()[:2]
    assert first == 'no my::Packet can be made from ("text"):'
    assert "error: invalid conversion" in error and len(said.splitlines()) <= 1 + own.TOLD_LINES


@needs_compiler
def test_a_type_that_needs_arguments_is_refused_with_the_option_for_them(header):
    first = why_not(header, arguments="").splitlines()[0]
    assert first == "no my::Packet can be made from (); name its constructor's arguments with --args:"


@needs_compiler
def test_a_type_that_the_header_has_not_is_named(header):
    said = why_not(header, type_name="my::Paket")
    assert "packet.hpp has no type my::Paket:" in said and "error:" in said


@needs_compiler
def test_what_the_compiler_takes_is_not_refused(header, tmp_path):
    compiled, linked = own.split_flags("-Iinclude -DSIZE=64 -std=c++20", header.parent)
    settings = tmp_path / "settings"
    settings.mkdir()
    for asked in (own.Own(header, "my::Packet", "1500", compiled, linked), own.Own(own.TEMPLATE)):
        (settings / own.SETTINGS).write_text(asked.settings())
        assert own._why_not(asked, ["g++"], settings) == ""


def test_paths_among_the_flags_are_made_absolute_and_the_linkers_are_told_apart(tmp_path):
    (tmp_path / "all.hpp").touch()
    compiled, linked = own.split_flags(
        "-I inc -isystem sys -include all.hpp -DA='b c' -O2 -Llib -lz -fopenmp", tmp_path
    )
    assert compiled[0] == f"-I{tmp_path}/inc"
    assert compiled[1] == f"SHELL:-isystem {tmp_path}/sys"
    assert compiled[2] == f"SHELL:-include {tmp_path}/all.hpp"
    assert compiled[3:] == ["-DA=b c", "-O2", "-fopenmp"]
    assert linked == [f"-L{tmp_path}/lib", "-lz", "-fopenmp"]


@pytest.fixture
def run(header, tmp_path, monkeypatch):
    def go(*words, name=own.TYPE, variants=("burst", "handoff"), busy=0.0):
        monkeypatch.setattr(hardware, "busy_share", lambda: busy)
        bench = support.fake_trial(tmp_path, name, variants)
        monkeypatch.setattr(own, "built", lambda asked, probed, say: program.load("gcc", bench))
        monkeypatch.setattr(toolchains, "probe", lambda toolchain: GCC)
        return invoke("try", "--budget", "0.001", *words)

    return go


def test_each_pattern_has_a_table_and_says_what_to_take(run, header):
    result = run(header, "--type", "my::Packet", "--args", "1500")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"measuring \d+ cells, \d+ to \d+ s\n", result.stderr)
    assert "my::Packet(1500), burst: 10,000 live" in result.stdout
    assert "my::Packet(1500), handoff: 10,000 live" in result.stdout
    assert result.stdout.count("take pooled::make_shared<T>(...).") == 2


def test_what_a_busy_machine_measured_recommends_nothing(run, header):
    asked = ("--type", "my::Packet", "--variant", "burst")
    said = run(header, *asked, busy=0.5).stdout
    assert "nothing is recommended: run it again while nothing else runs" in said
    assert "take pooled" not in said and "preload" not in said
    assert json.loads(run(header, *asked, "--json", busy=0.5).stdout)["patterns"]["burst"]["advice"] == []


def test_how_long_a_build_takes_is_said_before_it(monkeypatch, tmp_path):
    said, planned = [], "[0/2] x\n" + "".join(f"[{i}/9] Building\n" for i in range(1, 10))
    monkeypatch.setattr(own.build, "configure", lambda command: None)
    monkeypatch.setattr(own.build.subprocess, "run", lambda *_, **how: SimpleNamespace(stdout=planned))
    monkeypatch.setattr(own.build, "run", lambda command: said.append("built") or False)
    with pytest.raises(Failed):
        own.build.alone(dataclasses.replace(GCC, seconds=1.0), tmp_path, "target", [], said.append)
    assert said[0].startswith("building with gcc: 9 steps, about ") and said[1] == "built"


@pytest.mark.parametrize("command", ["try", "run", "real"])
def test_a_results_file_that_cannot_be_written_is_said_before_a_build(header, monkeypatch, command):
    """Also to root, to whom every directory seems to be writable."""
    for builder, name in ((own, "built"), (own.build, "ensure"), (own.build, "alone"), (own.build, "run")):
        monkeypatch.setattr(builder, name, lambda *_: pytest.fail("it was built"))
    more = [header, "--type", "my::Packet"] if command == "try" else []
    said = invoke(command, *more, "--output", "/proc/x.jsonl")
    assert said.exit_code == 1 and "/proc/x.jsonl cannot be written: No such file or directory" in said.stderr


def test_the_handles_of_both_are_measured_on_each_malloc(tmp_path):
    bench = program.load("gcc", support.fake_trial(tmp_path, own.TYPE, ["burst"]))
    libraries = [mallocs.Malloc("glibc"), mallocs.Malloc("other", "/o.so")]
    cells = try_own._cells(bench, own.TYPE, libraries, 10, 1, Selection())
    on_other = {cell.contender for cell in cells if cell.malloc == "other"}
    assert on_other == {"make_shared", "make_unique", "pooled", "pooled_unique"} and len(cells) == 9


def test_the_same_for_programs(run, header):
    told = json.loads(run(header, "--type", "my::Packet", "--json", "--variant", "burst").stdout)
    assert told["what"] == "my::Packet()" and list(told["patterns"]) == ["burst"]
    assert [choice["take"] for choice in told["patterns"]["burst"]["advice"]] == ["pooled", "pooled_unique"]
    fastest = told["patterns"]["burst"]["measured"][0]
    assert fastest["contender"] == "pooled_unique" and fastest["low"] <= fastest["median"] <= fastest["high"]


def test_a_new_pattern_that_does_not_fit_on_the_disk_leaves_no_file(run, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", fail)
    said = run("--new-pattern", tmp_path / "pattern.hpp")
    assert said.exit_code == 1 and "pattern.hpp cannot be written: No space left on device" in said.stderr
    assert not list(tmp_path.glob("*pattern.hpp*"))


def test_a_new_pattern_can_be_measured(run, tmp_path):
    path = tmp_path / "own.hpp"
    assert run("--new-pattern", path).stdout == f"{path}\n"
    assert run("--new-pattern", path).exit_code == 2
    result = run("--pattern", path, name=own.PATTERN, variants=["own"])
    assert result.exit_code == 0, result.stderr
    assert "own.hpp" in result.stdout and "one op: one object" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a header and its --type, or a --pattern"),
        (["packet.hpp"], "which type of packet.hpp is meant?"),
        (["nowhere.hpp", "--type", "X"], "there is no file nowhere.hpp"),
        (["nowhere.hpp"], "there is no file nowhere.hpp"),
        (["packet.hpp", "--type", "X", "--output", "nowhere/x.jsonl"], "nowhere/x.jsonl cannot be written"),
        (["--pattern", "packet.hpp", "--type", "X"], "go with a header"),
        (["packet.hpp", "--type", "X", "--source", "nowhere.cpp"], "there is no file nowhere.cpp"),
        (
            ["nowhere.hpp", "--variant", "rain"],
            "no variant 'rain'; there are: burst, create_drop, handoff, list, replace",
        ),
        (["packet.hpp", "--type", "X", "--toolchain", "icc"], "no toolchain 'icc'"),
    ],
)
def test_a_command_line_that_can_not_be_is_refused(run, header, monkeypatch, words, message):
    monkeypatch.chdir(header.parent)
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr
