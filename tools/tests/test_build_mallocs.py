# SPDX-License-Identifier: BSL-1.0
"""Mallocs to compare with, on machines that are not this one: cargo is a stand-in that brings a few lines of source."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent

# mimalloc's two versions compile, the others are broken or not there.
CARGO = r"""#!/bin/bash
echo "cargo $*" >>"$STATE/calls"
[[ ! -e $STATE/no-network ]] || exit 101
for word; do sources=$word; done
grep -q '^libmimalloc-sys = "=' Cargo.toml || exit 1
for v in v2 v3; do
    root=$sources/libmimalloc-sys-0.1.49/c_src/mimalloc/$v
    mkdir -p "$root/include" "$root/src"
    echo "#define MI_MALLOC_VERSION ${v#v}0307  // two digits" >"$root/include/mimalloc.h"
    echo "#include <mimalloc.h>
    int mi_version(void) { return MI_MALLOC_VERSION; }" >"$root/src/static.c"
done
mkdir -p "$sources/rpmalloc-sys-0.2.3+b097fd0/rpmalloc/rpmalloc" "$sources/snmalloc-sys-0.7.6"
echo "#error broken" >"$sources/rpmalloc-sys-0.2.3+b097fd0/rpmalloc/rpmalloc/rpmalloc.c"
"""


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class BuildMallocsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="pooled-mallocs-")  # LD_PRELOAD takes no path with a space
        self.addCleanup(directory.cleanup)
        root = Path(directory.name)
        self.checkout, self.state, self.shims = root / "checkout", root / "state", root / "shims"
        for each in (self.checkout / "tools", self.state, self.shims):
            each.mkdir(parents=True)
        for name in ("build_mallocs", "mallocs.toml"):
            shutil.copy(TOOLS / name, self.checkout / "tools" / name)
        self.cargo = self.shims / "cargo"
        self.cargo.write_text(CARGO)
        self.cargo.chmod(0o755)

    def build(self, path=None):
        (self.state / "calls").unlink(missing_ok=True)
        done = subprocess.run(
            [str(self.checkout / "tools/build_mallocs")],
            env={
                "PATH": path or f"{self.shims}:{os.environ['PATH']}",
                "STATE": str(self.state),
                "HOME": str(self.state),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.said = done.stderr
        self.assertEqual(done.returncode, 0, self.said)  # they are contenders, not requirements
        return sorted(p.name for p in (self.checkout / "build/mallocs").glob("lib*"))

    def test_what_can_be_built_is_and_the_rest_is_named(self):
        self.assertEqual(self.build(), ["libmimalloc2.so.2.3.7", "libmimalloc3.so.3.3.7"])
        self.assertIn("rpmalloc 0.2.3+b097fd0 could not be built, skipped", self.said)
        self.assertIn("snmalloc 0.7.6 could not be built, skipped", self.said)
        self.assertIn("jemalloc-crate: its crate is not as expected", self.said)

    def test_a_second_run_does_and_says_nothing_until_the_versions_change(self):
        self.build()
        self.build()
        self.assertEqual((self.said, (self.state / "calls").exists()), ("", False))
        with (self.checkout / "tools/mallocs.toml").open("a") as manifest:
            manifest.write("# newer\n")
        self.build()
        self.assertTrue((self.state / "calls").exists())

    def test_without_cargo_the_mallocs_that_are_not_measured_are_named(self):
        plain = self.state / "bin"
        plain.mkdir()
        for name in ("bash", "dirname", "mkdir", "cat", "cksum", "env", "nproc"):
            (plain / name).symlink_to(shutil.which(name))
        self.assertEqual(self.build(str(plain)), [])
        self.assertIn("cargo is missing, so these mallocs are not measured: mimalloc2 mimalloc3", self.said)
