# SPDX-License-Identifier: BSL-1.0
import json
import os

import pytest

from poolbench import machine, plan
from poolbench.tests.support import program

LISTED = {
    "optimisation": "-O3",
    "workloads": [
        {
            "name": "e1_list_churn",
            "variants": ["text", "code"],
            "payloads": [],
            "contenders": [
                {"name": "make_shared", "variants": ["text", "code"]},
                {"name": "new", "variants": ["text"]},
                {"name": "foonathan", "not_built": "not found"},
            ],
        },
        {
            "name": "e2_packet_burst",
            "variants": ["burst"],
            "payloads": [1500, 48],
            "contenders": [{"name": "pooled", "variants": ["burst"]}],
        },
    ],
}


@pytest.fixture
def executable(tmp_path):
    return plan.load_executable("gcc", program(tmp_path / "bench", f"print({json.dumps(LISTED)!r})"))


MALLOCS = [machine.Malloc("glibc"), machine.Malloc("jemalloc", "/lib/libjemalloc.so.2")]


def test_an_executable_is_asked_what_it_can_measure(executable):
    assert executable.has("e1_list_churn", "code", "make_shared")
    assert not executable.has("e1_list_churn", "code", "new")
    assert not executable.has("e1_list_churn", "text", "foonathan")


def test_what_is_not_built_is_named_with_the_reason(executable):
    assert list(plan.not_built([executable])) == ["gcc -O3: foonathan: not built: not found"]


def test_smoke_runs_every_variant_payload_and_contender_once(executable):
    cells = [(c.workload, c.variant, c.contender, c.payload) for c in plan.smoke([executable], MALLOCS)]
    assert cells == [
        ("e1_list_churn", "text", "make_shared", None),
        ("e1_list_churn", "text", "new", None),
        ("e1_list_churn", "code", "make_shared", None),
        ("e2_packet_burst", "burst", "pooled", 1500),
        ("e2_packet_burst", "burst", "pooled", 48),
    ]


def test_quick_runs_the_standard_pointers_on_every_malloc_and_ours_on_one(executable):
    cells = plan.quick([executable], MALLOCS)
    e1 = [(c.contender, c.malloc.name) for c in cells if c.workload == "e1_list_churn"]
    assert sorted(e1) == [("make_shared", "glibc"), ("make_shared", "jemalloc"), ("new", "glibc"), ("new", "jemalloc")]
    assert {c.malloc.name for c in cells if c.contender == "pooled"} == {"glibc"}


def test_no_cell_is_planned_twice(executable):
    cells = plan.quick([executable], MALLOCS)
    assert len(cells) == len(set(cells))


def test_a_command_holds_the_parameters_that_the_cell_has(executable):
    cell = next(c for c in plan.smoke([executable], MALLOCS) if c.payload == 48)
    command = cell.command()
    assert command[1] == "e2_packet_burst"
    assert command[command.index("--payload") + 1] == "48"
    assert "--threads" not in command


def test_a_malloc_that_is_not_installed_is_missed_by_name(tmp_path):
    library = tmp_path / "libjemalloc.so.2"
    library.touch()
    debug = tmp_path / "libtcmalloc_minimal_debug.so.4"
    debug.touch()
    found, missing = machine.find_mallocs([str(library), str(debug), os.fspath(tmp_path / "libmimalloc.so.2")])
    assert [m.name for m in found] == ["glibc", "jemalloc"]
    assert set(missing) == {"tcmalloc", "mimalloc"}
    assert "libtcmalloc-minimal4" in missing["tcmalloc"]


def test_a_machine_at_work_for_others_is_warned_of():
    assert machine.busy_warning(0.05) == ""
    assert "75% of its processors" in machine.busy_warning(0.75)


def test_the_share_of_others_is_a_share():
    assert 0 <= machine.busy_share(0.02) <= 1
