# SPDX-License-Identifier: BSL-1.0
import datetime
import json
import lzma
import random
import types
from dataclasses import replace

import pytest

from poolbench import tables
from poolbench.analysis import rows
from poolbench.errors import BadInput
from poolbench.results import find, record
from poolbench.results.read import read, read_measured
from poolbench.results.store import Store
from poolbench.tests import support

CELL = support.cell(payload=48, scale=0.1)
GOOD = support.sample(CELL, 2.0)


def test_what_is_appended_is_read_back(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    with Store(path) as store:
        store.append(support.session())
        store.append(GOOD)
    results = read(path)
    assert results.samples == [(CELL, GOOD)]
    assert (results.finished, results.damaged, results.warning()) == (False, [], "")


@pytest.mark.parametrize("kept", [1, 20, 100])
def test_half_a_line_at_the_end_is_cut_off_before_the_next_is_written(tmp_path, kept):
    path = support.write(tmp_path / "r.jsonl", support.session(), GOOD)
    with path.open("a") as file:
        file.write(json.dumps(GOOD)[:kept])
    assert len(read(path).samples) == 1
    with Store(path) as store:
        store.append(GOOD)
    results = read(path)
    assert (len(results.samples), results.damaged) == (2, [])


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[1, 2]",
        "null",
        "\x00\x00",
        json.dumps({**GOOD, "cell": {"workload": "w"}}),
        json.dumps({**GOOD, "cell": None}),
        json.dumps({**GOOD, "ns_per_op": "2"}),
        json.dumps({**GOOD, "ns_per_op": -1}),
        json.dumps({**GOOD, "ns_per_op": 10**400}),
        json.dumps({**GOOD, "cell": {**GOOD["cell"], "payload": "48"}}),
        json.dumps({**GOOD, "cell": {**GOOD["cell"], "scale": None}}),
        json.dumps({**GOOD, "wall_seconds": "long"}),
        json.dumps({**GOOD, "figures": {"bytes_each": [1]}}),
        json.dumps({**GOOD, "record": "something"}),
        json.dumps({**support.session(), "machine": "a big one"}),
        json.dumps({**support.session(), "mallocs": 5}),
        json.dumps({**support.session(), "programs": [{"toolchain": "gcc"}]}),
        "[" * 100_000,
        "\udcff\udcfe",
        json.dumps({k: v for k, v in GOOD.items() if k != "schema"}),
    ],
)
def test_a_line_that_is_no_record_is_skipped_and_told_of(tmp_path, line):
    path = support.write(tmp_path / "r.jsonl", support.session())
    with path.open("a", errors="surrogateescape") as file:
        file.write(line + "\n" + json.dumps(GOOD) + "\n")
    results = read(path)
    assert len(results.samples) == 1
    assert results.damaged == [2]
    assert "line 2" in results.warning()


def test_results_of_a_newer_schema_are_refused(tmp_path):
    path = support.write(tmp_path / "r.jsonl", {**support.session(), "schema": record.SCHEMA + 1})
    with pytest.raises(BadInput, match="schema 3; this poolbench reads schema 2"):
        read(path)


@pytest.mark.parametrize("content", ["", "hello\n", json.dumps(support.session()) + "\n"])
def test_a_file_without_results_is_bad_input(tmp_path, content):
    path = tmp_path / "r.jsonl"
    path.write_text(content)
    with pytest.raises(BadInput, match="holds no results"):
        read_measured(path)


def test_the_newest_file_with_results_is_meant_when_none_is_named(tmp_path):
    for name in ("20260101T000000Z-quick", "20260102T000000Z-smoke", "20270101T000000Z-real"):  # it has its own tables
        support.results_file(tmp_path / f"{name}.jsonl", {CELL: [1.0]})
    support.write(tmp_path / "20260103T000000Z-quick.jsonl", support.session())
    assert find.latest(tmp_path).stem == "20260101T000000Z-quick"
    with pytest.raises(BadInput, match="poolbench run makes some"):
        find.latest(tmp_path / "empty")
    (tmp_path / "smoke").mkdir()
    support.results_file(tmp_path / "smoke" / "20260102T000000Z-smoke.jsonl", {CELL: [1.0]})
    with pytest.raises(BadInput, match="but smoke runs, whose times mean nothing .*20260102T000000Z-smoke.jsonl"):
        find.latest(tmp_path / "smoke")


def test_of_runs_that_began_in_the_same_second_the_later_one_is_the_newer(tmp_path, monkeypatch):
    began = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    clock = types.SimpleNamespace(UTC=datetime.UTC, datetime=types.SimpleNamespace(now=lambda _: began))
    monkeypatch.setattr(find, "datetime", clock)
    first, second = (
        read(support.results_file(find.new_path("quick", tmp_path), {CELL: [1.0]}, time=began.isoformat()))
        for _ in range(2)
    )
    assert find.latest(tmp_path) == second.path
    assert find.before(second).path == first.path and find.before(first) is None


def test_what_a_process_took_tells_what_it_will_take_at_another_scale_too(tmp_path, monkeypatch):
    monkeypatch.setattr(find, "DIRECTORY", tmp_path)
    samples = [support.sample(CELL, 2.0, wall_seconds=seconds) for seconds in (0.2, 0.4)]
    support.write(tmp_path / "20260101T000000Z-quick.jsonl", support.session(), *samples)
    half = replace(CELL, scale=CELL.scale / 2)
    costs = find.costs("quick", [CELL, half, support.cell("new")])
    assert costs == {CELL: pytest.approx(0.3), half: pytest.approx(0.15)}


def test_a_compressed_file_is_read_as_any_other_and_never_written_to(tmp_path):
    path = support.results_file(tmp_path / "r.jsonl", {CELL: [1.0, 2.0]})
    packed = tmp_path / "r.jsonl.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    assert read(packed).samples == read(path).samples
    path.unlink()
    assert find.latest(tmp_path) == packed
    with pytest.raises(BadInput):
        Store(packed).append(GOOD)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(BadInput, match="cannot be read"):
        read(packed)


def test_a_file_damaged_anywhere_is_read_as_far_as_it_goes(tmp_path):
    """Bytes changed at random: what is left is shown, or the file is refused; nothing else happens."""
    rng = random.Random(1)
    failure = record.line("failure", cell=CELL.to_record(), kind="crash", reason="signal 11", stdout="", stderr="")
    other = support.cell("pooled", payload=48, scale=0.1)
    records = [GOOD, support.sample(other, 1.0, figures={"b": 1.5}), failure, support.sample(CELL, 3.0)]
    whole = support.write(tmp_path / "whole.jsonl", support.session(), *records).read_bytes()
    path = tmp_path / "r.jsonl"
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.choice([rng.randrange(256), ord('"'), ord("9"), ord("\n")])
        path.write_bytes(damaged)
        try:
            found = read(path)
        except BadInput:
            continue
        for group in rows.groups(found, {}):
            tables.group_sheet(group)
        assert len(found.samples) <= 3
