# SPDX-License-Identifier: BSL-1.0
"""The set-up on machines that are not this one: dpkg, apt, sudo and Python are stand-ins that record their calls."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parent.parent / "setup"

# The packages of Debian 12 that `bench` asks for; taken away one at a time below.
REQUIRED = ["g++", "ninja-build", "libboost1.81-dev", "nlohmann-json3-dev", "libcli11-dev"]
OPTIONAL = [
    *("libtbb-dev", "libfoonathan-memory-dev", "libpcap-dev", "libtcmalloc-minimal4", "libjemalloc2", "libmimalloc2.0"),
]

STAND_INS = {
    "dpkg-query": 'sed "s/^/installed /" "$STATE/installed"',
    "apt-cache": 'grep -qxF -- "${@: -1}" "$STATE/known"',
    "apt-get": r"""
        echo "apt-get $*" >>"$STATE/calls"
        case "$*" in
            *update*) exit 0 ;;
            *)  for name in "$@"; do
                    [[ $name == -* || $name == *::* || $name == install ]] && continue
                    [[ -e $STATE/apt-fails ]] && exit 100
                    echo "$name" >>"$STATE/installed"
                done ;;
        esac""",
    "id": 'cat "$STATE/uid"',
    "sudo": 'echo "sudo $*" >>"$STATE/calls"; [[ -e $STATE/sudo-works ]] || exit 1; shift; exec "$@"',
    "cmake": 'echo "cmake version $(cat "$STATE/cmake")"',
    "fake-python": r"""
        case "$*" in
            --version) echo "Python 3.11.2" ;;
            -c*) exit 0 ;;
            "-m venv"*) echo "venv" >>"$STATE/calls"; mkdir -p .venv/bin
                printf '#!/bin/sh\necho "pip $*" >>"$STATE/calls"\n' >.venv/bin/python; chmod +x .venv/bin/python ;;
        esac""",
}


class SetupTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="pooled setup ")
        self.addCleanup(directory.cleanup)
        root = Path(directory.name)
        self.checkout, self.state, shims = root / "check out", root / "state", root / "shims"
        for each in (*(self.checkout / name for name in ("tools", "poolbench", "poolprofile")), self.state, shims):
            each.mkdir(parents=True)
        shutil.copy(SETUP, self.checkout / "tools/setup")
        shutil.copy(SETUP.parent / "requirements.txt", self.checkout / "tools")
        mallocs = self.checkout / "tools/build_mallocs"  # test_build_mallocs.py
        mallocs.write_text('#!/bin/sh\ntouch "$STATE/mallocs"\n')
        mallocs.chmod(0o755)
        for name in ("poolbench", "poolprofile"):
            (self.checkout / name / "pyproject.toml").write_text("")
        for name, body in STAND_INS.items():
            shim = shims / name
            shim.write_text(f"#!/bin/bash\n{body}\n")
            shim.chmod(0o755)
        self.environment = {"PATH": f"{shims}:{os.environ['PATH']}", "STATE": str(self.state), "PYTHON": "fake-python"}
        self.write("installed", [*REQUIRED, *OPTIONAL])
        self.write("known", [*REQUIRED, *OPTIONAL])
        self.write("uid", ["0"])
        self.write("cmake", ["3.25.1"])

    def write(self, name, lines):
        (self.state / name).write_text("".join(f"{line}\n" for line in lines))

    def calls(self):
        path = self.state / "calls"
        return path.read_text() if path.exists() else ""

    def setup(self, goal="bench", *asked, **environment):
        (self.state / "calls").unlink(missing_ok=True)
        done = subprocess.run(
            [str(self.checkout / "tools/setup"), goal, *asked],
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.said = done.stderr
        return done.returncode

    def without(self, *packages):
        self.write("installed", [name for name in [*REQUIRED, *OPTIONAL] if name not in packages])

    def test_a_second_run_does_and_says_nothing(self):
        self.assertEqual(self.setup(), 0, self.said)
        self.assertIn("venv", self.calls())
        self.assertEqual(self.setup(), 0)
        self.assertEqual((self.calls(), self.said), ("", ""))

    def test_a_changed_pyproject_installs_the_packages_anew(self):
        self.setup()
        (self.checkout / "poolbench/pyproject.toml").write_text("# changed\n")
        self.assertEqual(self.setup(), 0)
        self.assertIn("install", self.calls())

    def test_a_goal_installs_what_it_needs_and_no_more(self):
        special = {"clang-19", "clang-tidy-19", "doxygen", "chromium", "valgrind", "gdb", "qemu-user", "googletest"}
        clang = ["libclang-rt-19-dev", "libc++-19-dev", "libc++abi-19-dev"]
        self.write("known", [*REQUIRED, *OPTIONAL, *special, *clang, "relacy-dev", "clang-format-19", "pkgconf"])
        for goal, wanted, packages in (
            ("single-header", set(), "quom"),
            ("package", set(), "quom setuptools"),
            ("lint", {"clang-19", "clang-tidy-19"}, "ruff"),
            ("docs", {"doxygen"}, "mkdocs-material"),
            ("test gcc:unit", {"googletest"}, ""),
            ("test tsan:stress checked:behaviour", {"googletest", "clang-19"}, ""),
            ("test gcc:unit,consumer", {"googletest", "clang-19", "gdb"}, "conan meson cmake quom"),
            ("test aarch64", {"googletest", "qemu-user"}, ""),
            ("test", special - {"clang-tidy-19"}, "conan meson cmake quom ruff setuptools mkdocs-material"),
        ):
            self.write("installed", [])
            shutil.rmtree(self.checkout / ".venv", ignore_errors=True)
            self.assertEqual(self.setup(*goal.split()), 0, self.said)
            self.assertEqual(special & set((self.state / "installed").read_text().split()), wanted, goal)
            self.assertEqual(set(re.findall(r"([\w-]+)==", self.calls())), set(packages.split()), goal)

    def test_root_installs_exactly_what_is_missing(self):
        self.without("libcli11-dev", "libjemalloc2")
        self.assertEqual(self.setup(), 0, self.said)
        self.assertEqual(self.calls().count("update"), 1)
        self.assertIn("--no-install-recommends libcli11-dev\n", self.calls())
        self.assertIn("--no-install-recommends libjemalloc2\n", self.calls())
        self.assertEqual(self.calls().count("apt-get"), 3)
        self.assertEqual(self.setup(), 0)
        self.assertEqual(self.calls(), "")

    def test_sudo_without_a_password_will_do(self):
        self.without("libcli11-dev")
        self.write("uid", ["1000"])
        self.write("sudo-works", [])
        self.assertEqual(self.setup(), 0, self.said)
        self.assertIn("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get", self.calls())

    def test_without_root_the_missing_packages_and_the_command_are_listed(self):
        self.without("libcli11-dev", "libboost1.81-dev", "libjemalloc2")
        self.write("uid", ["1000"])
        self.assertEqual(self.setup(), 1)
        self.assertIn(
            "sudo apt-get install --no-install-recommends libboost1.81-dev libcli11-dev libjemalloc2", self.said
        )
        self.assertNotIn("apt-get", self.calls())

    def test_a_requirement_that_apt_can_not_install_is_an_error(self):
        self.without("g++")
        self.write("apt-fails", [])
        self.assertEqual(self.setup(), 1)
        self.assertIn("could not install", self.said)
        self.write("known", [])
        self.assertEqual(self.setup(), 1)
        self.assertIn("apt knows no package g++", self.said)
