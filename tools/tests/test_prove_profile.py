# SPDX-License-Identifier: BSL-1.0
"""The commands that tools/prove_profile.py gives are ones that `poolbench` takes, and its file says of each part what
it was measured with."""

import json
import sys
import unittest
from pathlib import Path

import typer.main

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import prove_profile  # noqa: E402

from poolbench import cli  # noqa: E402

COMMANDS = typer.main.get_command(cli.app).commands


class ProveProfileTest(unittest.TestCase):
    def test_advise_takes_the_options_of_each_shape(self):
        for name, words in prove_profile.SHAPES.items():
            with self.subTest(name):
                COMMANDS["advise"].make_context("advise", words.split())

    def test_each_part_of_a_published_file_names_commit_and_machine(self):
        for path in prove_profile.ROOT.glob("bench/results/*-proof.json"):
            for name, part in json.loads(path.read_text())["parts"].items():
                with self.subTest(path.name, part=name):
                    self.assertLessEqual({"time", "busy_share", "commit", "machine", "runs"}, part.keys())


if __name__ == "__main__":
    unittest.main()
