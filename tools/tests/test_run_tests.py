# SPDX-License-Identifier: BSL-1.0
"""The summary of `make test` must not call a run that tested nothing a success."""

import json
import os
import threading

import pytest
import run_tests


@pytest.mark.parametrize(
    ("text", "passed", "expected"),
    [
        ('<testsuite tests="5" failures="0" skipped="1" disabled="1"/>', True, (5, 0, 2, True)),
        (
            '<testsuites><testsuite tests="2" errors="1"/><testsuite tests="3" failures="1"/></testsuites>',
            False,
            (5, 2, 0, False),
        ),
        ('<testsuite tests="0"/>', True, (0, 0, 0, False)),
        (None, True, (0, 0, 0, False)),
    ],
)
def test_counts_come_from_one_suite_or_several_and_no_tests_are_a_failure(tmp_path, text, passed, expected):
    junit = tmp_path / "junit.xml"
    if text is not None:
        junit.write_text(text, encoding="utf-8")
    found = run_tests.outcome_of("name", junit, passed)
    assert (found.tests, found.failed, found.skipped, found.ok) == expected


def test_the_summary_ends_with_the_names_of_what_failed(tmp_path, capsys):
    junit = tmp_path / "junit.xml"
    cases = '<testcase name="good"/><testcase name="bad"><failure message="1 != 2">a trace</failure></testcase>'
    junit.write_text(
        f'<testsuites><testsuite tests="2" failures="1">{cases}</testsuite></testsuites>', encoding="utf-8"
    )
    run_tests.print_summary([run_tests.outcome_of("python", junit, False)])
    *_, name, verdict = capsys.readouterr().out.splitlines()
    assert name == "failed: python: bad 1 != 2" and "1 failed" in verdict


def test_a_preset_that_does_not_exist_is_refused_before_anything_runs(capsys):
    assert run_tests.main(["gcc", "msan"]) == 2
    assert "no preset is called msan; there are gcc, " in capsys.readouterr().err


def test_only_what_the_labels_need_is_built_and_run(monkeypatch):
    commands = []
    monkeypatch.setattr(run_tests, "run", lambda *words: not commands.append(" ".join(map(str, words))))
    run_tests.main(["tsan:unit,compile_fail"])
    assert commands[:2] == [
        "cmake --preset tsan",
        "cmake --build --preset tsan --target tests-unit compile_fail_headers",
    ]
    assert len(commands) == 3 and commands[2].endswith("--label-regex ^(unit|compile_fail)$"), commands


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gcc", {"build_tests", "test_preset", "test_python", "test_benchmarks", "build_preset"}),
        ("gcc:python", {"test_python"}),
        ("gcc:unit", {"build_tests", "test_preset"}),
        ("tsan", {"build_tests", "test_preset"}),
    ],
)
def test_python_and_the_benchmarks_run_with_gcc_when_they_are_named_or_no_label_is(monkeypatch, words, expected):
    called = []
    for name in ("build_tests", "test_preset", "test_python", "test_benchmarks", "build_preset"):
        monkeypatch.setattr(run_tests, name, lambda *_, name=name: called.append(name) or run_tests.Outcome("name", 1))
    assert run_tests.main([words]) == 0
    assert sorted(called) == sorted(expected)


def test_python_keeps_its_bytecode_where_an_image_forbids_it(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "")
    monkeypatch.setattr(run_tests, "test_python", lambda: run_tests.Outcome("python", 1))
    assert run_tests.main(["gcc:python"]) == 0
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
    assert os.environ["PYTHONPYCACHEPREFIX"] == str(run_tests.ROOT / "build/pycache")


def test_a_preset_is_tested_while_the_next_one_is_built(monkeypatch):
    is_tested = threading.Event()
    passes = run_tests.Outcome("name", 1)

    def build(preset, _):
        return passes if preset == "asan" or is_tested.wait(60) else run_tests.Outcome("name", broken="waited")

    monkeypatch.setattr(run_tests, "build_tests", build)
    monkeypatch.setattr(run_tests, "test_preset", lambda built, *_: is_tested.set() or built)
    assert run_tests.main(["asan", "tsan"]) == 0


def test_the_presets_are_those_of_cmake():
    presets = json.loads((run_tests.ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["testPresets"]
    assert [each["name"] for each in presets if not each.get("hidden")] == run_tests.PRESETS


def test_the_last_line_tells_totals_and_who_failed(capsys):
    good, bad = run_tests.Outcome("gcc", 10, 0, 1), run_tests.Outcome("tsan", broken="build failed")
    run_tests.print_summary([good])
    assert capsys.readouterr().out.endswith("\nmake test: PASSED: 10 tests, 9 passed, 0 failed, 1 skipped\n")
    run_tests.print_summary([good, bad])
    assert "FAILED in tsan" in capsys.readouterr().out.splitlines()[-1]
