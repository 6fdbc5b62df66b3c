# SPDX-License-Identifier: BSL-1.0
"""The summary of `make test` must not call a run that tested nothing a success."""

import contextlib
import io
import json
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import run_tests


class SummaryTest(unittest.TestCase):
    def outcome(self, text, passed):
        with tempfile.TemporaryDirectory() as directory:
            junit = Path(directory) / "junit.xml"
            if text is not None:
                junit.write_text(text, encoding="utf-8")
            return run_tests.outcome_of("name", junit, passed, (0.0, 0.0), run_tests.Watch())

    def summary(self, *outcomes):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            run_tests.print_summary(list(outcomes))
        return output.getvalue().splitlines()[-1]

    def test_counts_come_from_one_suite_or_several(self):
        one = self.outcome('<testsuite tests="5" failures="0" skipped="1" disabled="1"/>', True)
        self.assertEqual((one.tests, one.failed, one.skipped, one.ok), (5, 0, 2, True))
        two = self.outcome(
            '<testsuites><testsuite tests="2" errors="1"/><testsuite tests="3" failures="1"/></testsuites>', False
        )
        self.assertEqual((two.tests, two.failed, two.ok), (5, 2, False))

    def test_no_tests_is_a_failure(self):
        self.assertFalse(self.outcome('<testsuite tests="0"/>', True).ok)
        self.assertFalse(self.outcome(None, True).ok)

    def test_a_preset_that_does_not_exist_is_refused_before_anything_runs(self):
        output = io.StringIO()
        with contextlib.redirect_stderr(output):
            self.assertEqual(run_tests.main(["gcc", "msan"]), 2)
        self.assertIn("no preset is called msan; there are gcc, ", output.getvalue())

    def test_only_what_the_labels_need_is_built_and_run(self):
        commands = []

        def record(*command):
            commands.append(" ".join(str(word) for word in command))
            return True

        with unittest.mock.patch.object(run_tests, "run", record), contextlib.redirect_stdout(io.StringIO()):
            run_tests.main(["tsan:unit,compile_fail"])
        self.assertEqual(commands[0], "cmake --preset tsan")
        self.assertEqual(commands[1], "cmake --build --preset tsan --target tests-unit compile_fail_headers")
        self.assertTrue(commands[2].endswith("--label-regex ^(unit|compile_fail)$"), commands[2])
        self.assertEqual(len(commands), 3)

    def test_python_and_the_benchmarks_run_with_gcc_when_they_are_named_or_no_label_is(self):
        for words, python, benchmarks in (("gcc", 1, 1), ("gcc:python", 1, 0), ("gcc:unit", 0, 0), ("tsan", 0, 0)):
            names = ("test_preset", "test_python", "test_benchmarks", "build_preset")
            done = run_tests.Outcome("name", 1)
            patches = dict.fromkeys(names, unittest.mock.DEFAULT)
            with unittest.mock.patch.multiple(run_tests, **patches) as mocks, contextlib.redirect_stdout(io.StringIO()):
                for mock in mocks.values():
                    mock.return_value = done
                self.assertEqual(run_tests.main([words]), 0)
            calls = [mocks[name].call_count for name in names]
            self.assertEqual(calls, [words != "gcc:python", python, benchmarks, benchmarks], words)

    def test_the_presets_are_those_of_cmake(self):
        presets = json.loads((run_tests.ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["testPresets"]
        self.assertEqual(run_tests.PRESETS, [each["name"] for each in presets if not each.get("hidden")])

    def test_the_last_line_tells_totals_and_who_failed(self):
        good = run_tests.Outcome("gcc", 10, 0, 1)
        bad = run_tests.Outcome("tsan", broken="build failed")
        self.assertEqual(self.summary(good), "make test: PASSED: 10 tests, 9 passed, 0 failed, 1 skipped")
        self.assertIn("FAILED in tsan", self.summary(good, bad))
