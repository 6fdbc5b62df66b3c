# SPDX-License-Identifier: BSL-1.0
"""Programs that others wrote (bench/real): the source package of Debian, or the crate that carries the sources, is
fetched, edited and built, once as it is and once with each variant's edits. Nothing of it is kept in the repository;
bench/real/README.md says what a program.toml holds."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from poolbench.errors import Failed
from poolbench.plan.program import Program, load
from poolbench.system import build

DIRECTORY = build.ROOT / "bench" / "real"
BUILDS = build.BUILDS / "real"
APT = Path("/etc/apt")
AS_IS = "as_is"  # the variant without an edit
OPTIMISATION = "-O2"  # what Debian builds with
FLAGS = f"{OPTIMISATION} -std=c++20 -DNDEBUG"


@dataclass(frozen=True)
class Edit:
    """Text of a file (or of all that a pattern names), replaced `count` times, and the header that it then needs."""

    file: str
    replace: str  # a regular expression
    by: str
    count: int = 1
    header: str = ""

    def applied(self, root: Path, header: str) -> tuple[set[Path], int]:
        """The files that were edited, and how many lines. Raises Failed when the source is not as expected."""
        files, found, lines = set(), 0, 0
        for path in sorted(root.glob(self.file)):
            before = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
            text, matches = re.subn(self.replace, self.by, before, flags=re.MULTILINE)
            name = self.header or header
            include = f"#include <{name}>\n" if name else ""
            if not matches:
                continue
            if not text.startswith(include):
                text, lines = include + text, lines + 1
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
            files.add(path.relative_to(root))
            found += matches
        if found != self.count:
            raise Failed(f"{self.file}: '{self.replace}' is there {found} times, not {self.count}")
        return files, lines + found * (1 + self.by.count("\n"))


@dataclass(frozen=True)
class Real:
    """One program.toml."""

    name: str
    package: str
    version: str
    what: str
    job: str
    sources: list[str]
    exclude: list[str] = field(default_factory=list)
    include: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)  # of the package's sources
    job_flags: list[str] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    prepare: list[dict] = field(default_factory=list)  # edits of all variants: what does not compile as C++20
    crate: bool = False  # `package` is a crate, not a source package of Debian
    generate: str = ""  # a command that makes more sources, run with the package's folder as the current one
    needs: str = ""  # Debian packages; tools/setup reads it
    header: str = "pooled/make_shared.hpp"
    variant: dict[str, list[dict]] = field(default_factory=dict)  # each has the edits of those before it, too

    @property
    def directory(self) -> Path:
        return BUILDS / self.name


@dataclass(frozen=True)
class Tree:
    """The sources of one variant."""

    path: Path
    files: frozenset[Path] = frozenset()  # those that were edited
    lines: int = 0  # likewise


def load_all(directory: Path = DIRECTORY) -> dict[str, Real]:
    """Raises Failed for a file that is none."""
    found = {}
    for path in sorted(directory.glob("*/program.toml")):
        try:
            found[path.parent.name] = Real(path.parent.name, **tomllib.loads(path.read_text()))
        except (TypeError, ValueError) as error:
            raise Failed(f"{path}: {error}") from error
    return found


def source_lists(directory: Path = APT) -> dict[str, str]:
    """The machine's package sources, asked for sources instead of programs: name of the file -> its text."""
    found = {}
    for path in [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))]:
        if path.suffix in (".list", ".sources") and path.is_file():
            found[path.name] = re.sub(r"^(Types: *)?deb\b(?!-src).*?(?=$| )", lambda m: f"{m[1] or ''}deb-src",
                                      path.read_text(), flags=re.MULTILINE)  # fmt: skip
    return found


def _apt(*words: str, folder: Path) -> str:
    """What it said; empty when it did what it was asked. Touches no setting or list of the system's."""
    own = BUILDS / "apt"
    (own / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(own / "parts", ignore_errors=True)
    (own / "parts").mkdir()
    for name, text in source_lists().items():
        (own / "parts" / name).write_text(text)
    options = {"Etc::SourceList": "/dev/null", "Etc::SourceParts": own / "parts", "State::Lists": own / "lists"}
    command = ["apt-get", "-q", *(f"-oDir::{name}={value}" for name, value in options.items()), *words]
    settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "check": False}
    try:
        done = subprocess.run(command, cwd=folder, **settings)
    except OSError as error:
        return f"{error}"
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"


def _fetch_package(real: Real, there: str, kept: Path) -> None:
    """Unpacks a source package of Debian, with its patches. Raises Failed."""
    if not list((BUILDS / "apt" / "lists").glob("*_Sources*")):
        _apt("update", folder=kept)
    why = _apt("source", there, folder=kept)
    if why and not _apt("update", folder=kept):  # the lists may have been old
        why = _apt("source", there, folder=kept)
    if why:
        raise Failed(f"{real.name}: apt-get has no source package {there}: {why}")


def _fetch_crate(real: Real, there: str, kept: Path) -> None:
    """Unpacks a crate, which carries the sources of a C++ library. Raises Failed."""
    if not shutil.which("cargo"):
        raise Failed(f"{real.name}: cargo is missing (Debian: cargo), with which the crate {there} is fetched")
    asking = real.directory / "asking"
    (asking / "src").mkdir(parents=True)
    (asking / "src" / "lib.rs").touch()
    wanted = f'[package]\nname = "asking"\nversion = "0.0.0"\n[dependencies]\n{real.package} = "={real.version}"\n'
    (asking / "Cargo.toml").write_text(wanted)
    words = ["cargo", "vendor", "--versioned-dirs", str(asking / "all")]
    done = subprocess.run(words, cwd=asking, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = sorted((asking / "all").glob(f"{real.package}-{real.version}*"))
    if done.returncode != 0 or not found:
        raise Failed(f"{real.name}: cargo has no crate {there}: {done.stderr.strip()}")
    found[0].rename(kept / found[0].name)
    shutil.rmtree(asking)


def fetch(real: Real, say: Callable[[str], None]) -> Path:
    """The folder of what was unpacked. Raises Failed."""
    there, kept = f"{real.package}={real.version}", real.directory / "source"
    stamp = real.directory / "source.stamp"
    if not (stamp.is_file() and stamp.read_text() == there):
        say(f"{real.name}: fetching the {'crate' if real.crate else 'source package'} {there}")
        shutil.rmtree(real.directory, ignore_errors=True)
        kept.mkdir(parents=True)
        (_fetch_crate if real.crate else _fetch_package)(real, there, kept)
        folder = next(path for path in kept.iterdir() if path.is_dir())
        if real.generate:
            shutil.copytree(DIRECTORY / real.name, folder, dirs_exist_ok=True)
            if not build.run(shlex.split(real.generate), folder):
                raise Failed(f"{real.name}: '{real.generate}' failed")
        for each in real.prepare:
            Edit(**each).applied(folder, "")
        stamp.write_text(there)
    return next(path for path in kept.iterdir() if path.is_dir())


def edit(real: Real, source: Path) -> dict[str, Tree]:
    """Each variant's tree. What was edited before with the same edits is left alone: ninja goes by the files' times."""
    stamp, wanted = real.directory / "edits.stamp", repr((real.version, real.variant, real.header))
    kept = json.loads(stamp.read_text()) if stamp.is_file() else {}
    kept = kept["trees"] if kept.get("edits") == wanted else {}
    found, files, lines, below = {AS_IS: Tree(source)}, set(), 0, source
    for variant, edits in real.variant.items():
        tree = real.directory / "trees" / variant
        if variant in kept:
            files, lines = set(map(Path, kept[variant]["files"])), kept[variant]["lines"]
        else:
            for stale in (tree, real.directory / variant):  # a file that is no longer edited is older than its object
                shutil.rmtree(stale, ignore_errors=True)
            shutil.copytree(below, tree, symlinks=True)
            for each in edits:
                more, count = Edit(**each).applied(tree, real.header)
                files, lines = files | more, lines + count
        found[variant], below = Tree(tree, frozenset(files), lines), tree
    trees = {variant: {"files": sorted(map(str, tree.files)), "lines": tree.lines} for variant, tree in found.items()}
    stamp.write_text(json.dumps({"edits": wanted, "trees": trees}))
    return found


NINJA = """rule compile
  command = rm -f $out.time; g++ {flags} $flags -w -pthread -MD -MF $out.d -time=$out.time -c $in -o $out
  depfile = $out.d
  deps = gcc
rule link
  command = g++ -pthread $in $libraries -o $out
"""


def ninja_file(real: Real, trees: dict[str, Tree], root: Path) -> tuple[str, dict[str, list[str]]]:
    """Its text, and the objects of each variant. A source that an edit cannot reach has one object for all variants."""
    ours = " ".join(f"-I{shlex.quote(str(each))}" for each in (root / "include", root / "bench", DIRECTORY))
    ours, text, objects = f"-DPOOLED_STATIC=1 {ours}", NINJA.format(flags=FLAGS), {}

    def path(of: Path) -> str:
        return re.sub(r"([$: ])", r"$\1", str(of))

    def compiled(source: Path, to: str, *flags: str) -> str:
        return f"build {to}: compile {path(source)}\n  flags = {' '.join(flags).replace('$', '$$')}\n"

    for variant, (tree, files) in ((name, (each.path, each.files)) for name, each in trees.items()):
        folders = [*(tree / each for each in real.include), DIRECTORY / real.name]  # ours may hold what configure makes
        include = [f"-I{shlex.quote(str(each))}" for each in folders]
        left_out = {each for pattern in real.exclude for each in tree.glob(pattern)}
        found = [each for pattern in real.sources for each in sorted(tree.glob(pattern)) if each not in left_out]
        sources = [each.relative_to(tree) for each in found]
        alone = files <= set(sources)  # no header is edited
        objects[variant] = [f"{AS_IS if alone and each not in files else variant}/{each}.o" for each in sources]
        for each, to in zip(sources, objects[variant], strict=True):
            if to.startswith(f"{variant}/"):
                text += compiled(tree / each, to, *include, *real.flags, ours)
        named = [f"-DPOOLED_REAL_PROGRAM='\"{real.name}\"'", f"-DPOOLED_REAL_VARIANT='\"{variant}\"'"]
        named += [f"-DPOOLED_BENCH_OPTIMISATION='\"{OPTIMISATION}\"'", f"-DPOOLED_BENCH_FLAGS='\"{FLAGS}\"'"]
        mains = [f"{variant}/real-{name}.o" for name in ("job", "main", "environment")]
        files_of = [DIRECTORY / real.name / "job.cpp", DIRECTORY / "main.cpp", root / "bench/support/environment.cpp"]
        for source, to in zip(files_of, mains, strict=True):
            more = [*include, *real.job_flags] if source.name == "job.cpp" else named
            text += compiled(source, to, *more, ours)
        pool = path(build.BUILDS / "gcc" / "libpooled-static.a")
        text += f"build job-{variant}: link {' '.join([*mains, *objects[variant], pool])}\n"
        text += f"  libraries = {' '.join(real.libraries)}\n"
        objects[variant].append(mains[0])
    return text, objects


def compile_seconds(times: Path) -> float:
    """What g++ -time wrote: a line for each of its programs, which begins with user and system time."""
    return sum(float(word) for line in times.read_text().splitlines() for word in line.split()[:2])


def library(say: Callable[[str], None]) -> None:
    """libpooled-static.a and libpooled-new.so, in the directory of `make bench`."""
    directory = build.BUILDS / "gcc"
    if not (directory / "build.ninja").is_file():
        build.configure(["cmake", "--preset", "gcc", "-B", str(directory), *build.NO_TESTS])
    say("building the library")
    if not build.run(["cmake", "--build", str(directory), "--target", "pooled_static", "pooled_new"]):
        raise Failed("the library could not be built")


def built(real: Real, say: Callable[[str], None]) -> tuple[list[Program], dict]:
    """The executables, and facts for the record of the session. Raises Failed or BadInput."""
    trees = edit(real, fetch(real, say))
    text, objects = ninja_file(real, trees, build.ROOT)
    (real.directory / "build.ninja").write_text(text)
    say(f"{real.name}: building")
    if not build.run(["ninja", "--quiet", "-C", str(real.directory)]):
        raise Failed(f"{real.name}: the build failed; the compiler's words are above")
    facts = {"package": real.package, "version": real.version, "what": real.what, "job": real.job, "variants": {
        variant: {"lines": tree.lines, "files": len(tree.files), "compile_seconds": round(
            sum(compile_seconds(real.directory / f"{each}.time") for each in objects[variant]), 1)}
        for variant, tree in trees.items()
    }}  # fmt: skip
    return [load("gcc", real.directory / f"job-{variant}") for variant in trees], facts
