# SPDX-License-Identifier: BSL-1.0
"""tools/expect_report.py: which ends of a program count as a report."""

import sys

import expect_report
import pytest

DIES = "import sys; print('ERROR: a leak'); sys.exit(23)"


@pytest.mark.parametrize(
    ("expected", "program", "status"),
    [
        ("a leak", DIES, 0),
        ("a race", DIES, 1),
        ("a leak", "print('ERROR: a leak')", 1),
        ("--none", DIES, 1),
        ("--none", "print('ERROR: a leak')", 1),
        ("--none", "", 0),
    ],
)
def test_a_report_is_a_failure_with_the_expected_words(expected, program, status):
    assert expect_report.main(["expect_report.py", expected, "--", sys.executable, "-c", program]) == status


def test_arguments_that_are_missing_are_refused(capsys):
    assert expect_report.main(["expect_report.py", "a leak"]) == 2
    assert "usage" in capsys.readouterr().err
