# SPDX-License-Identifier: BSL-1.0
"""The set-up on machines that are not this one: dpkg, apt, sudo and Python are stand-ins that record their calls."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent

# The packages of Debian 12 that `bench` asks for; taken away one at a time below.
PACKAGES = ["g++", "ninja-build", "libboost1.81-dev", "nlohmann-json3-dev", "libcli11-dev", "libtbb-dev"]
PACKAGES += ["libfoonathan-memory-dev", "libpcap-dev", "libtcmalloc-minimal4", "libjemalloc2", "libmimalloc2.0"]
SPECIAL = {"clang-19", "clang-tidy-19", "doxygen", "chromium", "valgrind", "gdb", "qemu-user", "googletest", "wine64"}
SPECIAL |= {"universal-ctags", "libdw-dev"}

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


class Machine:
    """A checkout on a machine whose state is files: what is installed, what apt knows, who the user is."""

    def __init__(self, root):
        self.checkout, self.state, shims = root / "check out", root / "state", root / "shims"
        for each in (*(self.checkout / name for name in ("tools", "poolbench", "poolprofile")), self.state, shims):
            each.mkdir(parents=True)
        for name in ("setup", "requirements.txt"):
            shutil.copy(TOOLS / name, self.checkout / "tools")
        for name in ("poolbench", "poolprofile"):
            (self.checkout / name / "pyproject.toml").touch()
        programs = {shims / name: body for name, body in STAND_INS.items()}
        programs[shims / "cargo"] = ""
        programs[self.checkout / "tools/build_mallocs"] = 'touch "$STATE/mallocs"'  # test_build_mallocs.py
        for path, body in programs.items():
            path.write_text(f"#!/bin/bash\n{body}\n")
            path.chmod(0o755)
        self.environment = {"PATH": f"{shims}:{os.environ['PATH']}", "STATE": str(self.state), "PYTHON": "fake-python"}
        self.has(installed=PACKAGES, known=PACKAGES, uid=["0"], cmake=["3.25.1"])

    def has(self, **files):
        for name, lines in files.items():
            (self.state / name).write_text("".join(f"{line}\n" for line in lines))

    def lacks(self, *packages):
        self.has(installed=[name for name in PACKAGES if name not in packages])

    def setup(self, *words, status=0):
        """Returns what it called and what it said."""
        calls = self.state / "calls"
        calls.write_text("")
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        command = [self.checkout / "tools/setup", *(words or ["bench"])]
        done = subprocess.run(command, env=self.environment, check=False, **streams)
        assert done.returncode == status, done.stderr
        return calls.read_text(), done.stderr


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "a machine")


def test_a_second_run_does_and_says_nothing(machine):
    calls, _ = machine.setup()
    assert "venv" in calls
    assert machine.setup() == ("", "")


def test_a_changed_pyproject_installs_the_packages_anew(machine):
    machine.setup()
    (machine.checkout / "poolbench/pyproject.toml").write_text("# changed\n")
    assert "install" in machine.setup()[0]


@pytest.mark.parametrize(
    ("goal", "wanted", "packages"),
    [
        ("single-header", set(), "quom"),
        ("package", set(), "quom setuptools"),
        ("lint", {"clang-19", "clang-tidy-19", "universal-ctags"}, "ruff ziglang"),
        ("docs", {"doxygen"}, "mkdocs-material"),
        ("test gcc:unit", {"googletest", "libdw-dev"}, ""),
        ("test tsan:stress checked:behaviour", {"googletest", "clang-19"}, ""),
        ("test gcc:unit,consumer", {"googletest", "clang-19", "gdb", "libdw-dev"}, "conan meson cmake quom"),
        ("test aarch64", {"googletest", "qemu-user"}, ""),
        ("test windows", {"googletest", "wine64"}, ""),
        ("test windows-clang", {"googletest", "wine64"}, "ziglang"),
        ("test musl", {"googletest"}, "ziglang"),
        (
            "test",
            SPECIAL - {"clang-tidy-19", "universal-ctags"},
            "conan meson cmake quom ruff setuptools mkdocs-material ziglang",
        ),
    ],
)
def test_a_goal_installs_what_it_needs_and_no_more(machine, goal, wanted, packages):
    clang = ["libclang-rt-19-dev", "libc++-19-dev", "libc++abi-19-dev"]
    machine.has(
        installed=[], known=[*PACKAGES, *SPECIAL, *clang, "relacy-dev", "clang-format-19", "pkgconf", "universal-ctags"]
    )
    calls, _ = machine.setup(*goal.split())
    assert SPECIAL & set((machine.state / "installed").read_text().split()) == wanted
    assert set(re.findall(r"([\w-]+)==", calls)) == set(packages.split())


def test_poolbench_is_installed_once_for_the_tests_and_the_benchmarks(machine):
    machine.environment["POOLED_SETUP"] = "off"
    assert machine.setup("test", "gcc:python,benchmarks")[0].count("-e poolbench") == 1


def test_optional_packages_are_installed_together_and_each_alone_if_one_is_broken(machine):
    machine.lacks("libjemalloc2", "libmimalloc2.0")
    assert "libjemalloc2 libmimalloc2.0\n" in machine.setup()[0]
    machine.lacks("libjemalloc2", "libmimalloc2.0")
    machine.has(**{"apt-fails": []})
    calls, said = machine.setup()
    assert "--no-install-recommends libmimalloc2.0\n" in calls and "skipped: libmimalloc2.0" in said


def test_cargo_which_gets_todays_mallocs_is_installed_where_none_is_in_path(machine):
    first, *rest = map(Path, machine.environment["PATH"].split(":"))
    (first / "cargo").unlink()
    others = machine.state / "others"
    others.mkdir()
    for each in (each for directory in reversed(rest) if directory.is_dir() for each in directory.iterdir()):
        if each.name != "cargo":
            (others / each.name).unlink(missing_ok=True)
            (others / each.name).symlink_to(each)
    machine.environment["PATH"] = f"{first}:{others}"
    machine.has(known=[*PACKAGES, "cargo"])
    assert "--no-install-recommends cargo\n" in machine.setup()[0]


def test_root_installs_exactly_what_is_missing(machine):
    machine.lacks("libcli11-dev", "libjemalloc2")
    calls, _ = machine.setup()
    assert calls.count("update") == 1 and calls.count("apt-get") == 3
    assert "--no-install-recommends libcli11-dev\n" in calls
    assert "--no-install-recommends libjemalloc2\n" in calls
    assert machine.setup()[0] == ""


def test_sudo_without_a_password_will_do(machine):
    machine.lacks("libcli11-dev")
    machine.has(uid=["1000"], **{"sudo-works": []})
    assert "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get" in machine.setup()[0]


def test_without_root_the_missing_packages_and_the_command_are_listed(machine):
    machine.lacks("libcli11-dev", "libboost1.81-dev", "libjemalloc2")
    machine.has(uid=["1000"])
    calls, said = machine.setup(status=1)
    assert "sudo apt-get install --no-install-recommends libboost1.81-dev libcli11-dev libjemalloc2" in said
    assert "apt-get" not in calls


def test_a_requirement_that_apt_can_not_install_is_an_error(machine):
    machine.lacks("g++")
    machine.has(**{"apt-fails": []})
    assert "could not install" in machine.setup(status=1)[1]
    machine.has(known=[])
    assert "apt knows no package g++" in machine.setup(status=1)[1]
