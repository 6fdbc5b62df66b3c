# SPDX-License-Identifier: BSL-1.0
"""`poolbench run` from the outside, on a benchmark that is a stand-in."""

import random
import resource
import signal
import time
from collections import Counter

import pytest

from poolbench.results.read import read
from poolbench.results.store import Store
from poolbench.tests import support
from poolbench.tests.support import invoke, started

PRECISE = ["--budget", "0.001"]  # no more than the least count


def arguments(bench, output, *more):
    return ["run", "--bin", f"gcc={bench}", "--output", str(output), *PRECISE, *map(str, more)]


@pytest.fixture
def run(tmp_path):
    def go(*more, contenders=("make_shared", "pooled"), **how):
        bench = support.fake_bench(tmp_path / "bench", contenders, **how)
        result = invoke(*arguments(bench, tmp_path / "r.jsonl", *more))
        result.path = tmp_path / "r.jsonl"
        return result

    return go


def counts(path):
    return Counter(cell.contender for cell, _ in read(path).samples)


def wait_for(path, text, times, process):
    """Until the file has the text so often, or the process has ended."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_text().count(text) >= times:
            return
        time.sleep(0.005)


def test_every_cell_is_run_three_times_and_the_path_is_all_of_standard_output(run):
    result = run()
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"{result.path}\n"
    assert counts(result.path) == {"make_shared": 3, "pooled": 3}
    assert read(result.path).finished


def test_a_report_ends_in_three_sentences_and_its_path_and_the_next_run_knows_how_long_it_takes(tmp_path):
    bench = support.fake_bench(tmp_path / "bench", ("make_shared", "new", "pooled", "pooled_local"), sleep=0.01)
    words = ["run", "--bin", f"gcc={bench}", *PRECISE, "--report"]
    first, second = (invoke(*words) for _ in range(2))
    assert first.exit_code == 0, first.stderr
    *_, glibc, best, promises, report = first.stdout.splitlines()
    assert "with glibc's malloc: nothing to compare" in glibc and "the best malloc of each: nothing" in best
    assert promises.startswith("Of pooled's own promises") and promises.endswith(
        "earlier run on the same machine to compare with."
    )
    assert "In a sentence: against glibc" in support.Path(report.removeprefix("report: ")).read_text()
    assert "of each at least, results" in first.stderr and "of each at least, about " in second.stderr
    assert "; against the run before on the same machine" in second.stdout
    assert ", those of all others by " in second.stdout


def test_a_sample_tells_what_made_it(run):
    (_, sample), *_ = read(run().path).samples
    assert {"commit", "machine", "time", "compiler", "stdlib", "flags", "malloc", "schema", "cell"} <= set(sample)
    assert set(sample["malloc"]) == {"name", "version", "path", "sha256"}
    assert sample["figures"] == {"bytes_each": 64.0}


def test_a_sample_is_taken_again_while_the_processors_are_further_apart_than_before(run):
    result = run(contenders=("make_shared",), hand_over=[27, 170, 30, 171, 172, 173, 174])
    assert result.exit_code == 0, result.stderr
    assert [sample["figures"]["hand_over_ns"] for _, sample in read(result.path).samples] == [27, 30, 174]


ROW = {"workload": "e14_programs", "variants": ["json"], "payloads": []}  # of the summary


@pytest.mark.parametrize(
    ("how", "shared", "kept"),
    [
        (ROW, [0.0, 1.0, 0.3, 0.1, 0.0], [0.0, 0.1, 0.0]),
        (ROW, [1.0] * 20, [1.0] * 3),  # they always do
        ({}, [0.0, 1.0, 0.3], [0.0, 1.0, 0.3]),
    ],
)
def test_a_sample_of_a_row_is_taken_again_while_others_use_the_core(run, how, shared, kept):
    result = run(contenders=("make_shared",), core_shared=shared, **how)
    assert result.exit_code == 0, result.stderr
    assert [sample["core_shared"] for _, sample in read(result.path).samples] == kept


def test_crashing_and_hanging_cells_are_one_failed_cell_each_and_the_rest_is_measured(run):
    result = run("--timeout", "1", contenders=("make_shared", "crash", "hang", "exit"))
    assert result.exit_code == 1
    assert counts(result.path) == {"make_shared": 3}
    failed = {cell.contender: failure for cell, failure in read(result.path).failures}
    assert failed["crash"]["stdout"] == "half a result\n"
    assert failed["hang"]["stdout"] == "working\n"
    assert {name: f["kind"] for name, f in failed.items()} == {"crash": "crash", "hang": "hang", "exit": "crash"}
    assert result.stderr.count("FAILED: ") == 3
    assert "signal 11 (SIGSEGV)" in result.stderr
    assert "3 cells failed" in result.stderr


def test_a_file_of_other_executables_is_not_added_to(run):
    before = run().path.read_bytes()
    result = run(contenders=("make_shared", "pooled", "another"))
    assert result.exit_code == 2
    assert "other executables" in result.stderr
    assert result.path.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workload", "nothing"], "no workload 'nothing'; there are: w"),
        (["--contender", "nothing"], "there are: make_shared, pooled"),
        (["--malloc", "jemalloc"], "no malloc 'jemalloc'; there are: glibc"),
        (["--toolchain", "icc"], "no toolchain 'icc'; there are: gcc"),
        (["--samples", "0"], "--samples"),
        (["--samples", "x"], "--samples"),
        (["--budget", "nan"], "no duration"),
        (["--timeout", "-1"], "no duration"),
        (["--timeout", "99999999999h"], "no duration"),
        (["--profile", "slow"], "--profile"),
        (["--bin", "gcc"], "NAME=PATH"),
        (["--bin", "gcc=/nowhere/pooled-bench"], "cannot be asked"),
    ],
)
def test_a_wrong_word_on_the_command_line_ends_in_status_2_and_leaves_no_file(run, words, message):
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not result.path.exists()
    assert result.stdout == ""


def test_a_dry_run_lists_the_cells_and_writes_nothing(run):
    result = run("--dry-run")
    assert result.stdout.splitlines() == ["w loop make_shared on glibc gcc (48 B payload)",
                                          "w loop pooled on glibc gcc (48 B payload)"]  # fmt: skip
    assert not result.path.exists()


def test_without_a_name_a_stopped_run_is_finished_and_a_finished_one_is_followed_by_another(tmp_path):
    bench = support.fake_bench(tmp_path / "bench")
    words = ["run", "--bin", f"gcc={bench}", *PRECISE]

    def go():
        result = invoke(*words)
        assert result.exit_code == 0, result.stderr
        return support.Path(result.stdout.strip())

    first = go()
    whole = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(whole[:6]) + whole[6][:40])
    assert go() == first
    assert counts(first) == {"make_shared": 3, "pooled": 3}
    assert go() != first


@pytest.mark.parametrize("seed", range(4))
def test_a_run_killed_at_any_moment_is_finished_by_the_next(tmp_path, seed):
    rng = random.Random(seed)
    path, contenders = tmp_path / "r.jsonl", ("a", "b", "crash", "c")
    bench = support.fake_bench(tmp_path / "bench", contenders, sleep=0.01)
    for _ in range(2):
        driver = started(*arguments(bench, path))
        wait_for(path, "\n", rng.randrange(2, 9), driver)
        time.sleep(rng.random() * 0.05)
        driver.kill()
        driver.communicate()
    at_the_kill = len(read(path).samples)
    last = started(*arguments(bench, path))
    _, said = last.communicate()
    assert last.returncode == 1, said  # for the crashing cell
    results = read(path)
    assert Counter(cell.contender for cell, _ in results.samples) == {"a": 3, "b": 3, "c": 3}
    assert results.finished and not results.damaged
    assert Counter(cell.contender for cell, _ in results.failures) == {"crash": 1}
    # A run is lost with each kill at most, so nothing that was whole was done twice.
    runs = Counter((tmp_path / "bench/log").read_text().split())
    assert at_the_kill > 0 and sum(runs.values()) <= 16 + 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_at_once_with_130_and_it_can_be_resumed(tmp_path, number):
    bench = support.fake_bench(tmp_path / "bench", ("a", "hang"))
    driver = started(*arguments(bench, tmp_path / "r.jsonl", "--timeout", "60"))
    wait_for(tmp_path / "bench/log", "hang", 1, driver)
    asked = time.monotonic()
    driver.send_signal(number)
    out, said = driver.communicate()
    assert time.monotonic() - asked < 2
    assert driver.returncode == 130, said
    assert "continues from here" in said and "Traceback" not in said
    assert out == ""
    assert read(tmp_path / "r.jsonl").sessions


def test_a_second_run_on_the_same_file_is_refused(run, tmp_path):
    with Store(tmp_path / "r.jsonl"):
        result = run()
    assert result.exit_code == 2
    assert "another run is writing" in result.stderr


def test_quiet_leaves_only_what_went_wrong_on_standard_error(tmp_path):
    words = arguments(support.fake_bench(tmp_path / "bench"), tmp_path / "r.jsonl")
    result = invoke("--quiet", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path / 'r.jsonl'}\n"
    words = arguments(support.fake_bench(tmp_path / "other", ("a", "exit")), tmp_path / "s.jsonl")
    result = invoke("--quiet", *words)
    assert result.exit_code == 1
    assert all("FAILED" in line or "cells failed" in line for line in result.stderr.splitlines())
    assert "measured in" in invoke(*words).stderr  # the next command is not quiet


def test_a_malloc_of_ones_own_is_measured_beside_the_others(run, tmp_path):
    missing = run("--malloc", f"mine={tmp_path / 'nowhere.so'}")
    assert missing.exit_code == 2 and "there is no such library" in missing.stderr
    assert "NAME=PATH" in run("--malloc", "mine=").stderr
    mine = tmp_path / "libmine.so"
    mine.touch()
    # It is verified like any other: a file that is no library is not mapped, which fails its cells and no others.
    result = run("--profile", "smoke", "--malloc", "glibc", "--malloc", f"mine={mine}")
    assert result.exit_code == 1 and "ran on glibc, not on mine" in result.stderr
    assert counts(result.path) == {"make_shared": 1, "pooled": 1}
    # Named, it is tried in a smoke run too, which leaves out those that were only found.
    result = run("--profile", "smoke", "--malloc", f"mine={mine}", "--dry-run")
    assert "make_shared on mine" in result.stdout and "on glibc" in result.stdout


def test_a_full_disk_ends_in_status_1_and_the_run_can_be_resumed(tmp_path):
    path = tmp_path / "r.jsonl"
    bench = support.fake_bench(tmp_path / "bench")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))

    driver = started(*arguments(bench, path), preexec_fn=small_files)
    _, said = driver.communicate()
    assert driver.returncode == 1
    assert "cannot be written" in said and "Traceback" not in said
    assert not read(path).damaged
    last = started(*arguments(bench, path))
    last.communicate()
    assert last.returncode == 0
    assert counts(path) == {"make_shared": 3, "pooled": 3}
