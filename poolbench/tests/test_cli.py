# SPDX-License-Identifier: BSL-1.0
import json

import pytest
from typer.testing import CliRunner

from poolbench import cli, machine
from poolbench.tests.support import program

# A benchmark of one workload and two contenders, one of which can be made to fail.
FAKE = """
import json, sys
if "--list" in sys.argv:
    contenders = [{"name": n, "variants": ["loop"]} for n in ("make_shared", "pooled")]
    print(json.dumps({"optimisation": "-O3", "workloads": [
        {"name": "create_drop", "variants": ["loop"], "payloads": [48], "contenders": contenders}]}))
elif "pooled" in sys.argv and BROKEN:
    sys.exit("broken")
else:
    print(json.dumps({"workload": "create_drop", "ns_per_op": 2.0, "ops": 10, "malloc": "glibc", "operation": "op"}))
"""


@pytest.fixture(autouse=True)
def only_glibc(monkeypatch):
    monkeypatch.setattr(machine, "find_mallocs", lambda files=None: ([machine.Malloc("glibc")], {}))
    monkeypatch.setattr(machine, "busy_share", lambda: 0.0)


def invoke(tmp_path, *arguments, broken=False):
    exe = program(tmp_path / "pooled-bench", FAKE.replace("BROKEN", str(broken)))
    return CliRunner().invoke(cli.app, [arguments[0], "--bin", f"gcc={exe}", *arguments[1:]])


def quick(tmp_path, *arguments, broken=False):
    result = invoke(tmp_path, "quick", "--output", str(tmp_path / "results"), *arguments, broken=broken)
    files = list((tmp_path / "results").glob("*.jsonl"))
    lines = [json.loads(line) for line in files[0].read_text().splitlines()] if files else []
    return result, lines


def test_quick_writes_the_session_and_every_sample_as_json_lines(tmp_path):
    result, lines = quick(tmp_path)
    assert result.exit_code == 0
    assert lines[0]["record"] == "session"
    assert {"commit", "machine", "rounds"} <= set(lines[0])
    assert [line["round"] for line in lines[1:]] == [0, 0, 1, 1, 2, 2]
    assert "the figures of issue 2" in result.output


def test_a_failed_cell_ends_in_status_1_and_the_rest_is_measured(tmp_path):
    result, lines = quick(tmp_path, broken=True)
    assert result.exit_code == 1
    assert "FAILED: create_drop loop pooled" in result.output
    assert sum("ns_per_op" in line for line in lines) == 3
    assert [line["failure"] for line in lines if "failure" in line] == ["exit status 1: broken"]


def test_smoke_ends_in_status_1_when_a_cell_fails(tmp_path):
    assert invoke(tmp_path, "smoke").exit_code == 0
    assert invoke(tmp_path, "smoke", broken=True).exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [["--workload", "nothing"], ["--rounds", "0"], ["--rounds", "x"], ["--budget", "nan"], ["--timeout", "-1"]],
)
def test_a_wrong_word_on_the_command_line_ends_in_status_2(tmp_path, arguments):
    result, lines = quick(tmp_path, *arguments)
    assert result.exit_code == 2
    assert lines == []


def test_a_build_without_optimisation_is_refused_rather_than_measured(tmp_path):
    exe = program(tmp_path / "pooled-bench", FAKE.replace("-O3", "Debug").replace("BROKEN", "False"))
    result = CliRunner().invoke(cli.app, ["quick", "--bin", f"gcc={exe}", "--output", str(tmp_path)])
    assert result.exit_code == 2
    assert "Debug" in result.output


@pytest.mark.parametrize("option", ["gcc", "gcc=", "=path", "gcc=/nowhere/pooled-bench"])
def test_an_executable_that_is_not_there_ends_in_status_2(option):
    assert CliRunner().invoke(cli.app, ["smoke", "--bin", option]).exit_code == 2


def test_an_interrupted_session_shows_what_it_has_and_ends_in_status_130(tmp_path, monkeypatch):
    def interrupted(cell, timeout):
        raise KeyboardInterrupt

    monkeypatch.setattr("poolbench.runner.run_cell", interrupted)
    result, lines = quick(tmp_path)
    assert result.exit_code == 130
    assert lines[-1] == {"record": "interrupted"}
