# SPDX-License-Identifier: BSL-1.0
import json
import re

import pytest

from poolbench.errors import Failed
from poolbench.measure.run_plan import RunPlan
from poolbench.measure.stopping import Rule
from poolbench.plan.program import Program, Workload
from poolbench.report import real as tables
from poolbench.results.read import read
from poolbench.system import real
from poolbench.tests import support
from poolbench.tests.support import invoke


def described(**rest) -> real.Real:
    usual = {"package": "p", "version": "1-1", "what": "", "job": "", "sources": ["src/*.cpp"], "include": ["include"]}
    return real.Real("p", **{**usual, **rest})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The unpacked package of `described`, and the folder where it is built."""
    monkeypatch.setattr(real, "BUILDS", tmp_path / "build")
    source = tmp_path / "source"
    for name in ("src/a.cpp", "src/b.cpp", "include/p.h"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("auto p = std::make_shared<A>(1);\nint other;\n")
    (tmp_path / "build" / "p").mkdir(parents=True)
    return source


EDIT = {"file": "src/a.cpp", "replace": "std::make_shared<", "by": "pooled::make_shared<"}


def test_every_program_of_the_repository_is_described_and_has_a_job():
    for name, each in real.load_all().items():
        assert (real.DIRECTORY / name / "job.cpp").is_file()
        assert each.version and each.what and each.job
        for edit in (edit for edits in [each.prepare, *each.variant.values()] for edit in edits):
            re.compile(real.Edit(**edit).replace)


def test_a_description_with_an_unknown_word_is_refused_by_its_file(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "program.toml").write_text('pakcage = "p"')
    with pytest.raises(Failed, match=r"p/program.toml: .*pakcage"):
        real.load_all(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.list", "deb [a=/k] http://m x main\n# deb y\n", "deb-src [a=/k] http://m x main\n# deb y\n"),
        ("a.sources", "Types: deb\nURIs: http://m\n", "Types: deb-src\nURIs: http://m\n"),
        ("b.sources", "Types: deb deb-src\nSuites: x\n", "Types: deb-src deb-src\nSuites: x\n"),
    ],
)
def test_source_packages_come_from_where_the_machine_gets_its_packages(tmp_path, name, text, expected):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / name).write_text(text)
    (tmp_path / "sources.list.d" / "off.sources.disabled").write_text("Types: deb\n")
    assert real.source_lists(tmp_path) == {name: expected}


@pytest.mark.parametrize("works", [True, False])
def test_a_crate_is_unpacked_by_cargo_or_the_failure_is_told(tmp_path, monkeypatch, works):
    monkeypatch.setattr(real, "BUILDS", tmp_path / "build")
    (tmp_path / "bin").mkdir()
    support.program(
        tmp_path / "bin" / "cargo",
        """import os, pathlib, sys
if sys.argv[1] != "vendor" or 'lib-sys = "=1.2"' not in open("Cargo.toml").read():
    sys.exit(1)
for each in ("lib-sys-1.2.0+4", "other-1.2"):
    os.makedirs(f"{sys.argv[3]}/{each}")
pathlib.Path(sys.argv[3], "lib-sys-1.2.0+4", "a.cpp").write_text("there")
""",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    wanted = described(package="lib-sys", version="1.2" if works else "1.3", crate=True)
    if works:
        assert (real.fetch(wanted, print) / "a.cpp").read_text() == "there"
        assert not (wanted.directory / "asking").exists()
    else:
        with pytest.raises(Failed, match="cargo has no crate lib-sys=1.3"):
            real.fetch(wanted, print)


def test_objects_of_other_edits_do_not_stay(package):
    program = described(variant={"pooled": [EDIT]})
    real.edit(program, package)
    (program.directory / "pooled").mkdir()
    (program.directory / "pooled" / "a.o").touch()
    real.edit(described(variant={"pooled": [EDIT | {"by": "other<"}]}), package)
    assert not (program.directory / "pooled" / "a.o").exists()


def test_an_edit_changes_a_copy_and_counts_its_lines(package):
    trees = real.edit(described(variant={"pooled": [EDIT]}), package)
    assert "std::make_shared" in (package / "src/a.cpp").read_text()
    edited = (trees["pooled"].path / "src/a.cpp").read_text()
    assert edited.startswith("#include <pooled/make_shared.hpp>\nauto p = pooled::make_shared<A>(1);\n")
    assert trees["pooled"].lines == 2 and len(trees["pooled"].files) == 1
    assert trees["as_is"].lines == 0


def test_a_variant_has_the_edits_of_those_before_it_and_is_edited_once(package):
    more = {**EDIT, "file": "src/b.cpp"}
    program = described(variant={"pooled": [EDIT], "containers": [more]})
    tree = real.edit(program, package)["containers"]
    assert tree.lines == 4 and len(tree.files) == 2
    (tree.path / "left alone").touch()
    assert real.edit(program, package)["containers"] == tree and (tree.path / "left alone").exists()
    real.edit(described(variant={"pooled": [EDIT], "containers": [EDIT | {"file": "src/*.cpp"}]}), package)
    assert not (tree.path / "left alone").exists()


def test_a_source_that_is_not_as_expected_is_no_silent_success(package):
    with pytest.raises(Failed, match="there 1 times, not 2"):
        real.edit(described(variant={"pooled": [EDIT | {"count": 2}]}), package)


@pytest.mark.parametrize(("file", "names"), [("src/a.cpp", "a"), ("include/p.h", "ab")])
def test_only_what_an_edit_can_reach_is_compiled_again(package, tmp_path, file, names):
    program = described(variant={"pooled": [EDIT | {"file": file}]})
    text, objects = real.ninja_file(program, real.edit(program, package), tmp_path)
    assert {each for each in objects["pooled"] if each.startswith("pooled/src")} == {
        f"pooled/src/{name}.cpp.o" for name in names
    }
    assert all(text.count(f"build {each}:") == 1 for variant in objects.values() for each in variant)


def test_the_seconds_of_a_compilation_are_those_of_all_its_programs(tmp_path):
    (tmp_path / "t").write_text("1.25 0.5 cc1plus -O2 3 4\n0.25 0 as 7\n")
    assert real.compile_seconds(tmp_path / "t") == 2.0


def cell(variant: str, malloc: str):
    return support.cell(variant, malloc, workload="p", variant="job", optimisation="-O2")


def results(path, values: dict, output: int = 7):
    """Of one program: (variant, malloc) -> seconds."""
    lines = {"lines": 2, "files": 1, "compile_seconds": 3.0}
    facts = {"package": "p", "version": "1-1", "what": "w", "job": "work"}
    facts["variants"] = {"as_is": {**lines, "lines": 0}, "pooled": lines}
    samples = []
    for key, seconds in values.items():
        figures = {"peak_mib": 10.0, "output": output if key == ("pooled", "jemalloc") else 7}
        samples += [support.sample(cell(*key), seconds * 1e9, figures=figures) for _ in range(3)]
    end = support.record.line("finished", runs=len(samples), failed=0)
    session = support.session(profile="real", selection={"programs": {"p": facts}})
    return read(support.write(path, session, *samples, end))


TIMES = {("as_is", "glibc"): 2.0, ("as_is", "jemalloc"): 1.5, ("as_is", "pooled-new"): 1.2}
TIMES |= {("pooled", "glibc"): 1.0, ("pooled", "jemalloc"): 0.8, ("pooled", "pooled-new"): 0.9}


def test_the_table_shows_shares_of_the_time_on_glibc_and_the_best_malloc(tmp_path):
    found = results(tmp_path / "r.jsonl", TIMES)
    row = "| p 1-1: work | 2.00 s | 0.75 (jemalloc) | 0.60 | 0.50 | 0.45 | 0.40 (jemalloc) | 2 |"
    assert row in tables.lead(found)
    page = tables.page(found)
    assert "| p | pooled | 1.000 | 0.800 | 0.900 |" in page and "| p | pooled | 2 in 1 | 3.0 | 1.00 |" in page


def test_without_glibc_there_are_no_shares(tmp_path):
    found = results(tmp_path / "r.jsonl", {key: value for key, value in TIMES.items() if key[1] == "pooled-new"})
    page = tables.page(found)
    assert "| p | as is |  | 1.200 |" in page and "inf" not in page and "Shares" not in page


def test_a_program_without_an_edit_has_empty_places(tmp_path):
    found = results(tmp_path / "r.jsonl", {key: value for key, value in TIMES.items() if key[0] == "as_is"})
    assert "| 0.75 (jemalloc) | 0.60 |  |  |  |" in tables.lead(found)


def test_an_output_that_differs_fails_the_command(tmp_path):
    path = tmp_path / "r.jsonl"
    results(path, TIMES)
    assert invoke("real", "--from", path).exit_code == 0
    results(path, TIMES, output=8)
    done = invoke("real", "--from", path, "--json")
    assert done.exit_code == 1 and "its output is not that of the program" in done.stderr
    assert json.loads(done.stdout)["different_output"] == ["p job pooled on jemalloc gcc -O2"]
    done = invoke("real", "--from", support.results_file(path, {cell("as_is", "glibc"): [1.0]}))
    assert done.exit_code == 2 and "was not measured by poolbench real" in done.stderr


def test_a_word_that_names_no_program_is_refused_before_anything_is_built():
    done = invoke("real", "--programs", "no-such")
    assert done.exit_code == 2 and "yaml-cpp" in done.stderr


def test_each_executable_runs_its_own_variant(tmp_path):
    def program(variant):
        listed = Workload("p", {"job": [variant]}, {}, [], 0, [], [])
        return Program("gcc", tmp_path / variant, "-O2", "c", "s", "f", variant, {"p": listed})

    plan = RunPlan(tmp_path, "real", [], [program("as_is"), program("pooled")], [], Rule(), 1.0)
    assert plan.program(cell("pooled", "glibc")).path.name == "pooled"
