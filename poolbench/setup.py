# SPDX-License-Identifier: BSL-1.0
"""The wheel holds the library and the benchmark's sources beside the Python code, so that it works without a checkout.
All else is in pyproject.toml."""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
from poolbench import where  # noqa: E402

SOURCES = ("include", "compat", "src", "bench", "examples", "cmake", "CMakeLists.txt", "CMakePresets.json", "LICENSE")


class WithSources(build_py):
    def run(self):
        if self.editable_mode:  # it runs in the checkout
            super().run()
            return
        # setuptools keeps what an earlier build copied: modules that no longer exist would get into the wheel.
        shutil.rmtree(Path(self.build_lib) / "poolbench", ignore_errors=True)
        super().run()
        target = Path(self.build_lib) / "poolbench" / "sources"
        target.mkdir(parents=True)
        for name in SOURCES:
            source = CHECKOUT / name
            if source.is_dir():
                shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("results", "__pycache__"))
            else:
                shutil.copyfile(source, target / name)
        (target / where.COMMIT).write_text(where.of_sources() + "\n")


setup(cmdclass={"build_py": WithSources})
