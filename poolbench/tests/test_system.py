# SPDX-License-Identifier: BSL-1.0
import json
import os
import shutil

import pytest

from poolbench.commands import doctor
from poolbench.system import build, mallocs, toolchains
from poolbench.system.toolchains import Toolchain
from poolbench.tests.support import invoke


@pytest.mark.real_machine
def test_a_malloc_that_is_not_installed_is_missed_by_name(tmp_path):
    library = tmp_path / "libjemalloc.so.2"
    library.touch()
    debug = tmp_path / "libtcmalloc_minimal_debug.so.4"
    debug.touch()
    found, missing = mallocs.find([str(library), str(debug), os.fspath(tmp_path / "libmimalloc.so.2")])
    assert [m.name for m in found] == ["glibc", "jemalloc"]
    assert set(missing) == set(mallocs.NAMES) - {"glibc", "jemalloc"}
    assert "libtcmalloc-minimal4" in missing["tcmalloc"] and "tools/build_mallocs" in missing["snmalloc"]


@pytest.mark.real_machine
def test_a_malloc_that_was_built_here_stands_beside_the_installed_one(tmp_path):
    names = ["libmimalloc.so.2", "libmimalloc2.so.2.3.2", "libjemalloc-crate.so.5.3.1", "librpmalloc.so.0.2.3+b097fd0"]
    for name in names:
        (tmp_path / name).touch()
    found, _ = mallocs.find([str(tmp_path / name) for name in names])
    assert [(m.name, os.path.basename(m.path)) for m in found[1:]] == [
        ("mimalloc", "libmimalloc.so.2"),
        ("mimalloc2", "libmimalloc2.so.2.3.2"),
        ("rpmalloc", "librpmalloc.so.0.2.3+b097fd0"),
        ("jemalloc-crate", "libjemalloc-crate.so.5.3.1"),
    ]
    assert found[3].version == "0.2.3+b097fd0"  # it has no function that tells


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
@pytest.mark.parametrize(
    ("compiler", "flags", "why_absent", "stdlib"),
    [
        ("no-such-compiler", (), "no-such-compiler is not installed (Debian: some-package)", ""),
        ("g++", ("-nostdinc++",), "g++ -nostdinc++ cannot link a program (Debian: some-package)", ""),
        ("g++", (), "", "libstdc++ "),
    ],
)
def test_a_compiler_tells_its_library_or_what_it_lacks(compiler, flags, why_absent, stdlib):
    probed = toolchains.probe(Toolchain("x", compiler, flags, "some-package"))
    assert probed.why_absent == why_absent and probed.stdlib.startswith(stdlib)


def test_the_doctor_tells_people_and_programs_the_same(monkeypatch):
    gcc, clang, _ = toolchains.TOOLCHAINS
    probed = {gcc: toolchains.Probed(gcc, "g++ 12", "libstdc++ 1")}
    probed[clang] = toolchains.Probed(clang, why_absent="clang++: none")
    monkeypatch.setattr(toolchains, "TOOLCHAINS", (gcc, clang))
    monkeypatch.setattr(toolchains, "probe", probed.get)
    monkeypatch.setattr(mallocs, "find", lambda: ([mallocs.Malloc("snmalloc", "/lib/s.so", "0.7.6")], {"x": "x: no"}))
    monkeypatch.setattr(doctor, "_perf", lambda: "works")
    told = json.loads(invoke("doctor", "--json").stdout)
    assert told["missing"] == ["clang++: none", "x: no"] and told["mallocs"][0]["version"] == "0.7.6"
    assert told["machine"]["cores"] >= 1 and told["pinned"].keys() >= {"snmalloc-sys", "libmimalloc-sys2"}
    text = " ".join(invoke("doctor").stdout.split())
    for expected in ("g++ 12; libstdc++ 1", "snmalloc 0.7.6 /lib/s.so", "huge pages", "Missing: clang++: none"):
        assert expected in text


@pytest.mark.parametrize(
    ("cache", "wanted", "expected"),
    [
        (None, ["e1/a", "e1/b"], "-DPOOLED_BENCH_WORKLOADS=e1 -DPOOLED_BENCH_CONTENDERS=e1/a|e1/b"),
        ("WORKLOADS:STRING=e1|e2", ["e1/a"], None),
        ("WORKLOADS:STRING=e1", ["e3/a"], "-DPOOLED_BENCH_WORKLOADS=e1|e3 -DPOOLED_BENCH_CONTENDERS=e1/.*|e3/a"),
        ("CONTENDERS:STRING=e1/a|e3/b", ["e3/b"], None),
        ("CONTENDERS:STRING=e1/a", ["e1/b"], "-DPOOLED_BENCH_WORKLOADS=e1 -DPOOLED_BENCH_CONTENDERS=e1/a|e1/b"),
        ("CONTENDERS:STRING=e1/a", [], "-DPOOLED_BENCH_WORKLOADS= -DPOOLED_BENCH_CONTENDERS="),
        ("WORKLOADS:STRING=", ["e3/a"], None),
        ("", ["e3/a"], None),
    ],
)
def test_a_build_directory_is_configured_again_only_for_what_it_lacks(tmp_path, cache, wanted, expected):
    if cache is not None:
        (tmp_path / "CMakeCache.txt").write_text(f"POOLED_BENCH_{cache}\n")
        (tmp_path / "build.ninja").touch()
    command = build.configure_arguments(tmp_path, wanted, "gcc")
    assert (" ".join(command[-2:]) if command else None) == expected
