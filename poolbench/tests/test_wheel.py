# SPDX-License-Identifier: BSL-1.0
"""The wheel, installed where there is no checkout: it brings the sources that it builds."""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PROFILER = PROJECT.parent / "poolprofile"
pytestmark = [
    pytest.mark.real_machine,
    pytest.mark.skipif(not (shutil.which("g++") and shutil.which("ninja")), reason="needs g++ and ninja"),
]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """That of poolbench, and that of poolprofile."""
    pytest.importorskip("setuptools", minversion="70.1")
    directory = tmp_path_factory.mktemp("wheel")
    words = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", directory, PROJECT, PROFILER]
    # setuptools builds in the checkout: one at a time, whichever workers run these tests.
    with open(PROJECT / "setup.py") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        left = PROJECT / "build/lib/poolbench/no_longer.py"  # by the build of an earlier version
        left.parent.mkdir(parents=True, exist_ok=True)
        left.touch()
        subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *words], check=True)
    return [next(directory.glob(f"{name}-*.whl")) for name in ("poolbench", "poolprofile")]


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory):
    """Runs the command of a fresh environment, in an empty directory, for a user who has never used it. What it depends
    on is this environment's; poolbench itself is not."""
    home = tmp_path_factory.mktemp("home")
    here = home / "empty"
    here.mkdir()
    venv = home / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    words = ["--python", venv / "bin/python", "install", "--no-deps", "--no-index", *wheels]
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *words], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    # A path in such a file is added without the .pth files there, which would bring the checkout back.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}

    def run(*words, **more):
        return subprocess.run(
            [venv / "bin/poolbench", *words], cwd=here, env={**kept, "HOME": str(home), **more},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    run.home, run.here, run.packages = home, here, packages
    return run


def test_the_wheel_holds_every_package_and_the_sources_but_no_results_and_no_tests(wheels):
    names, of_profiler = (zipfile.ZipFile(wheel).namelist() for wheel in wheels)
    assert "poolbench/no_longer.py" not in names
    packages = {f"poolbench/{path.parent.name}/__init__.py" for path in PROJECT.glob("*/__init__.py")}
    assert packages - {"poolbench/tests/__init__.py"} <= set(names)
    assert {f"poolbench/workloads/{path.name}" for path in (PROJECT / "workloads").glob("*.toml")} <= set(names)
    for name in ("include/pooled/pooled.hpp", "src/pooled.cpp", "bench/CMakeLists.txt", "COMMIT"):
        assert f"poolbench/sources/{name}" in names
    assert {"poolprofile/cli.py", "poolprofile/cpp/replay.cpp", "poolprofile/cpp/recorder/file.hpp"} <= set(of_profiler)
    every = [*names, *of_profiler]
    assert not [name for name in every if "/tests/" in name or ("results/" in name and not name.endswith(".py"))]


def test_the_installed_command_tells_its_version(installed):
    done = installed("--version")
    assert done.stdout.startswith("poolbench "), done.stderr
    told = installed.packages / f"poolbench-{done.stdout.split()[1]}.dist-info"
    assert told.is_dir()


def test_the_installed_command_builds_and_measures_and_writes_to_the_users_own_directories(installed):
    done = installed("--quiet", "run", "--profile", "smoke", "-w", "boost_pool", "-t", "gcc", "-m", "glibc")
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path.parent == installed.home / ".local/share/poolbench/results"
    assert '"contender": "pooled_compat"' in path.read_text()
    (build,) = (installed.home / ".cache/poolbench").glob("*/bench-smoke")
    assert (build / "bench/pooled-bench").is_file()
    assert not any(installed.here.iterdir())


def test_the_installed_command_profiles_a_program(installed, tmp_path):
    source, program = PROFILER / "tests/profiled.cpp", tmp_path / "program"
    subprocess.run(["g++", "-std=c++20", "-O2", "-g", source, "-o", program, "-pthread"], check=True)
    done = installed("profile", "--samples", "3", "--top", "1", "--", str(program))
    assert done.returncode == 0, done.stderr
    assert "my::Packet" in done.stdout and "std::make_shared" in done.stdout
