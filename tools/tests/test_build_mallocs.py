# SPDX-License-Identifier: BSL-1.0
"""Mallocs to compare with, on machines that are not this one: cargo is a stand-in that brings a few lines of source."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent

# mimalloc's two versions compile, the others are broken or not there.
CARGO = r"""#!/bin/bash
echo "cargo $*" >>"$STATE/calls"
[[ ! -e $STATE/no-network ]] || exit 101
for word; do sources=$word; done
grep -q '^libmimalloc-sys2 = "=' Cargo.toml || exit 1
[[ -e $STATE/new-cargo ]] || ! grep -q libtcmalloc Cargo.toml || exit 101
for v in 2:mimalloc 3:mimalloc3; do
    root=$sources/libmimalloc-sys2-0.1.65/c_src/${v#*:}
    mkdir -p "$root/include" "$root/src"
    echo "#define MI_MALLOC_VERSION ${v%:*}0307  // two digits" >"$root/include/mimalloc.h"
    echo "#include <mimalloc.h>
    int mi_version(void) { return MI_MALLOC_VERSION; }" >"$root/src/static.c"
done
mkdir -p "$sources/rpmalloc-sys-0.2.3+b097fd0/rpmalloc/rpmalloc" "$sources/snmalloc-sys-0.7.6"
if grep -q libtcmalloc Cargo.toml; then
    root=$sources/libtcmalloc-sys-0.1.14
    mkdir -p "$root/c_src/tcmalloc/tcmalloc"
    printf '%s\n' 'files([' '    "c_src/a.cc",' '    "c_src/malloc_bridge.cc",' '])' >"$root/build.rs"
    echo "extern int b; int a = b;" >"$root/c_src/a.cc"
    echo "int b = 1;" >"$root/c_src/tcmalloc/tcmalloc/tcmalloc.cc"
fi
echo "#error broken" >"$sources/rpmalloc-sys-0.2.3+b097fd0/rpmalloc/rpmalloc/rpmalloc.c"
"""
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture
def build(tmp_path):
    """Runs the script in a checkout of its own; returns the libraries that are there then, and what was said."""
    checkout, cargo = tmp_path / "checkout", tmp_path / "shims/cargo"
    for each in (checkout / "tools", cargo.parent):
        each.mkdir(parents=True)
    for name in ("build_mallocs", "mallocs.toml"):
        shutil.copy(TOOLS / name, checkout / "tools" / name)
    cargo.write_text(CARGO)
    cargo.chmod(0o755)

    def go(path=f"{cargo.parent}:{os.environ['PATH']}"):
        (tmp_path / "calls").unlink(missing_ok=True)
        environment = {"PATH": path, "STATE": str(tmp_path), "HOME": str(tmp_path)}
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run([checkout / "tools/build_mallocs"], env=environment, check=False, **streams)
        assert done.returncode == 0, done.stderr  # they are contenders, not requirements
        return sorted(path.name for path in (checkout / "build/mallocs").glob("lib*")), done.stderr

    return go


def test_what_can_be_built_is_and_the_rest_is_named(build):
    built, said = build()
    assert built == ["libmimalloc2.so.2.3.7", "libmimalloc3.so.3.3.7"]
    assert "rpmalloc 0.2.3+b097fd0 could not be built, skipped" in said
    assert "snmalloc 0.7.6 could not be built, skipped" in said
    for name in ("jemalloc-crate", "tcmalloc-google"):  # the stand-in is an old cargo, which cannot read tcmalloc's
        assert f"{name}: its crate is not as expected" in said


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_a_cargo_that_reads_its_manifest_brings_tcmalloc(build, tmp_path):
    (tmp_path / "new-cargo").touch()
    assert "libtcmalloc-google.so.0.1.14" in build()[0]


def test_a_second_run_does_and_says_nothing_until_the_versions_change(build, tmp_path):
    built, _ = build()
    assert build() == (built, "") and not (tmp_path / "calls").exists()
    with (tmp_path / "checkout/tools/mallocs.toml").open("a") as manifest:
        manifest.write("# newer\n")
    build()
    assert (tmp_path / "calls").exists()


def test_without_cargo_the_mallocs_that_are_not_measured_are_named(build, tmp_path):
    plain = tmp_path / "bin"
    plain.mkdir()
    for name in ("bash", "dirname", "mkdir", "cat", "cksum", "env", "nproc"):
        (plain / name).symlink_to(shutil.which(name))
    built, said = build(str(plain))
    assert built == []
    assert "cargo is missing, so these mallocs are not measured: mimalloc2 mimalloc3" in said


def test_a_download_that_failed_is_tried_again(build, tmp_path):
    (tmp_path / "no-network").touch()
    built, said = build()
    assert built == [] and "cargo could not get the sources" in said
    (tmp_path / "no-network").unlink()
    assert build()[0] == ["libmimalloc2.so.2.3.7", "libmimalloc3.so.3.3.7"]
