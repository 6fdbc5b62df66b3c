# SPDX-License-Identifier: BSL-1.0
"""`poolbench profile` and `poolbench replay`: what the recorder leaves, what is read from it, and bad input."""

import contextlib
import dataclasses
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from poolbench.errors import Failed
from poolbench.system import hardware
from poolbench.system.mallocs import OURS, Malloc
from poolbench.tests.support import children, invoke, started
from poolprofile import census, cli, launch, naming, native, plan, report, saving, trace
from poolprofile.symbols import Frame

SOURCE = Path(__file__).with_name("profiled.cpp")
needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") and shutil.which("addr2line")), reason="needs g++ and binutils"
)


@pytest.fixture(scope="session")
def profiled(tmp_path_factory):
    """(recorder, program): compiled once."""
    directory = tmp_path_factory.mktemp("native")
    program = directory / "profiled"
    subprocess.run(["g++", "-std=c++20", "-O2", "-g", SOURCE, "-o", program, "-pthread"], check=True)
    return native.recorder(lambda text: None), program


def record(profiled, directory, *words, most=64 << 20):
    recorder, program = profiled
    directory.mkdir(exist_ok=True)
    status = launch.run([str(program), *words], recorder, directory, most)
    return status, [trace.read(path) for path in sorted(directory.glob("*.pooltrace"))]


def kind_of(found: census.Census, type_name: str) -> census.Kind:
    (kind,) = [kind for kind in found.kinds.values() if kind.type == type_name]
    return kind


@needs_compiler
def test_types_are_named_and_counted(profiled, tmp_path):
    status, traces = record(profiled, tmp_path / "t")
    assert status == 0 and len(traces) == 1 and traces[0].ended
    found = census.take(traces)
    packet, shape = kind_of(found, "my::Packet"), kind_of(found, "my::Shape")
    assert (packet.how, packet.advice) == ("std::make_shared", "pooled::make_shared")
    assert shape.how == "std::make_unique"
    assert packet.site.startswith("profiled.cpp:")
    # 600,000 each: what is counted by samples is random, here within six standard errors or so.
    assert packet.objects == pytest.approx(600_000, rel=0.5)
    assert packet.size == pytest.approx(216, abs=1)
    assert packet.remote_share > 0.1
    assert shape.remote_share == 0
    assert shape.median_life() < packet.median_life()


@needs_compiler
def test_the_object_behind_a_separate_control_block_is_named_after_it(profiled, tmp_path):
    _, traces = record(profiled, tmp_path / "t", "plain")
    found = {kind.how: kind for kind in census.take(traces).kinds.values() if kind.type == "my::Plain"}
    assert found.keys() == {"new", "std::shared_ptr(new T): control block"}
    assert found["new"].size == pytest.approx(120) and found["new"].site.startswith("profiled.cpp:")


@needs_compiler
def test_a_window_holds_every_call_in_an_order_that_can_be_replayed(profiled, tmp_path):
    _, (found,) = record(profiled, tmp_path / "t")
    assert len(found.windows) >= 2 and len(found.events) > 1000
    for window in found.windows[:3]:
        ticks = found.events["tick"]
        rows = np.nonzero((ticks >= window.begin) & (ticks <= window.end))[0]
        begins, ends, only_ends = census.pairs(found, rows)
        kinds = found.event_kinds[rows]
        # No address is given out twice before it is freed, and none is freed twice, but for the window's edges.
        assert np.count_nonzero(ends >= 0) + len(only_ends) == np.count_nonzero(kinds % 2 == 0) or np.any(kinds > 2)
        known = ends >= 0
        assert np.all(found.events["tick"][rows][ends[known]] >= found.events["tick"][rows][begins[known]])


@needs_compiler
def test_a_killed_program_leaves_what_it_recorded(profiled, tmp_path):
    status, (found,) = record(profiled, tmp_path / "t", "kill")
    assert status == -9 and not found.ended
    assert kind_of(census.take([found]), "my::Packet").objects == pytest.approx(600_000, rel=0.5)


@needs_compiler
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_poolbench_ends_the_program_whose_trace_is_then_reported(profiled, tmp_path, number):
    driver = started("profile", "--no-replay", "--keep", tmp_path / "kept", "--", profiled[1], "forever")
    program = None
    while program is None and driver.poll() is None:
        time.sleep(0.02)
        with contextlib.suppress(OSError):  # one has ended
            names = {Path(f"/proc/{each}/comm").read_text(): each for each in children(driver.pid)}
            program = names.get("profiled\n")
    variables = Path(f"/proc/{program}/environ").read_bytes().split(b"\0")
    (directory,) = [
        Path(each.partition(b"=")[2].decode()) for each in variables if each.startswith(b"POOLBENCH_TRACE_D")
    ]
    try:
        while not any(used(path) > 256 << 10 for path in directory.glob("*.pooltrace")) and driver.poll() is None:
            time.sleep(0.02)
        driver.send_signal(number)
        out, said = driver.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL)
    assert driver.returncode == 0, said
    assert f"was ended by signal {int(number)}" in said and "my::Packet" in out
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert not Path(f"/proc/{program}").exists()
    assert not directory.exists()


def used(path: Path) -> int:
    """Bytes of the trace that are written."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(40)[32:], "little")


@needs_compiler
def test_a_forked_child_has_a_file_of_its_own(profiled, tmp_path):
    status, traces = record(profiled, tmp_path / "t", "fork")
    assert status == 0 and len({each.pid for each in traces}) == 2
    counts = sorted(float(each.samples["gap"].sum()) for each in traces)
    assert counts[0] == pytest.approx(200_600, rel=0.1)
    assert counts[1] == pytest.approx(1_203_900, rel=0.1)


@needs_compiler
def test_a_full_file_ends_the_recording_and_not_the_program(profiled, tmp_path):
    status, (found,) = record(profiled, tmp_path / "t", most=256 << 10)
    assert status == 0 and found.full


@needs_compiler
def test_the_trace_is_cut_off_or_of_another_version_or_none(profiled, tmp_path):
    _, (found,) = record(profiled, tmp_path / "t")
    whole = found.path.read_bytes()
    used = int.from_bytes(whole[32:40], "little")
    cases = {
        "cut": (whole[: used - 1], "is cut off"),
        "short": (whole[:100], "is no trace, or cut off"),
        "newer": (whole[:8] + struct.pack("<I", 99) + whole[12:used], "has version 99 of the trace format"),
        "other": (b"#!/bin/sh\n" + bytes(9000), "is no trace: poolbench profile writes them"),
        "empty": (b"", "cannot be read"),
    }
    for name, (content, message) in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        result = invoke("replay", path)
        assert result.exit_code == 2 and message in result.stderr, name
    result = invoke("replay", str(tmp_path / "nowhere"))
    assert result.exit_code == 2 and "cannot be read" in result.stderr


@needs_compiler
def test_the_command_reports_and_keeps(profiled, tmp_path):
    kept = tmp_path / "kept"
    words = ["profile", "--no-replay", "--json", "--keep", str(kept), "--", str(profiled[1])]
    result = invoke(*words)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert {"my::Packet", "my::Shape"} <= {each["type"] for each in told["types"]}
    (path,) = kept.iterdir()
    assert path.stat().st_size < 64 << 20
    again = invoke("replay", "--no-replay", str(path))
    assert again.exit_code == 0 and "my::Packet" in again.stdout
    here = hardware.describe()
    machine = f"{here['cpu']}, {here['cores']} cores; measured 20"
    assert told["origin"][0].startswith(f"{path.name}: {machine}")
    assert again.stdout.startswith(f"{path.name}: {machine}") and "quiet at the start" in again.stdout.splitlines()[0]


@needs_compiler
def test_a_static_program_is_refused(tmp_path):
    static = tmp_path / "static"
    command = ["g++", "-static", "-x", "c++", "-", "-o", static]
    if subprocess.run(command, input=b"int main() {}", capture_output=True, check=False).returncode != 0:
        pytest.skip("no static C library")
    result = invoke("profile", "--", static)
    assert result.exit_code == 2 and "is linked statically" in result.stderr


def test_a_program_that_is_not_there_is_named(tmp_path):
    result = invoke("profile", "--", "./no-such-program", "--its-option")
    assert result.exit_code == 2 and "there is no program ./no-such-program" in result.stderr
    plain = tmp_path / "plain"
    plain.write_text("text")
    result = invoke("profile", "--", plain)
    assert result.exit_code == 2 and "chmod +x" in result.stderr


POLICY = "std::allocator<void>, (__gnu_cxx::_Lock_policy)2>"
BOOST = "boost::detail::sp_counted_impl_pd<my::P*, boost::detail::sp_ms_deleter<my::P> >"


@pytest.mark.parametrize(
    ("name", "type_name", "how"),
    [
        (f"std::_Sp_counted_ptr_inplace<my::Packet, {POLICY}", "my::Packet", "std::make_shared"),
        (f"std::_Sp_counted_ptr_inplace<std::map<int, my::A>, {POLICY}", "std::map<int, my::A>", "std::make_shared"),
        ("std::__1::__shared_ptr_emplace<my::P, std::__1::allocator<my::P> >", "my::P", "std::make_shared"),
        ("std::_Sp_counted_ptr<my::P*, (__gnu_cxx::_Lock_policy)2>", "my::P", "std::shared_ptr(new T): control block"),
        (BOOST, "my::P", "boost::make_shared"),
        ("my::Circle", "my::Circle", "new"),
    ],
)
def test_a_control_block_names_what_is_in_it(name, type_name, how):
    assert naming.of_type_info(name) == (type_name, how)


def frame(function, file="/home/me/main.cpp", line=1):
    return Frame(function, file, line, "/bin/program")


MEMORY, VECTOR = "/usr/include/c++/12/bits/shared_ptr.h", "/usr/include/c++/12/bits/stl_vector.h"


def test_a_container_says_of_what_it_is():
    json = "ns::json<std::map, std::vector, std::string, bool, long, unsigned long, double, std::allocator>"
    leaf = frame("std::_Vector_base<char, std::allocator<char> >::_M_allocate(unsigned long)", VECTOR)  # any's code
    grows = frame(f"void std::vector<{json}*, std::allocator<{json}*> >::_M_realloc_insert<>(int)", VECTOR)
    assert naming.of_frames([leaf, grows, frame("main")]) == ("std::vector of ns::json<...>*", "container")
    node = f"std::_Rb_tree_node<std::pair<int const, {json}> >"
    tree = [frame(f"std::__new_allocator<{node}>::allocate(unsigned long)", "/usr/include/c++/12/bits/new_allocator.h"),
            frame("std::_Rb_tree<int>::_M_get_node()", "/usr/include/c++/12/bits/stl_tree.h")]  # fmt: skip
    expected = "std::map or std::set of std::pair<int const, ns::json<...>>"
    assert naming.of_frames([*tree, frame("main")]) == (expected, "container")


def test_inlined_calls_that_have_lost_their_namespace_are_known_by_their_file():
    inlined = [frame("allocate", "/usr/include/c++/12/bits/new_allocator.h"), frame("make_shared<my::A, int>", MEMORY)]
    user = frame("main", line=7)
    assert naming.purpose([*inlined, user], "") == naming.Purpose("my::A", "std::make_shared", "main.cpp:7")
    assert naming.of_frames([frame("make_shared<my::A>"), user]) == ("??", "")  # one of the user's own


def test_an_operation_of_asio_is_named_and_can_be_pooled():
    asio = frame(
        "boost::asio::detail::thread_info_base::allocate(void*, unsigned long)", "/usr/include/boost/asio/x.hpp"
    )
    found = naming.purpose([asio, frame("main", line=7)], "")
    assert (found.type, found.where) == ("Asio operation", "main.cpp:7") and "bind_allocator" in found.advice


def test_lifetimes_whose_end_was_not_seen_are_not_taken_for_short():
    kind = census.Kind("T", "new", "")
    kind.lives.append(np.array([[10.0, 1, 1], [20.0, 0, 1], [20.0, 0, 1], [20.0, 0, 1]]))
    assert kind.median_life() is None
    kind.lives.append(np.array([[10.0, 1, 8]]))
    assert kind.median_life() == 10


def test_what_asks_an_allocator_itself_is_named_and_can_be_pooled():
    asked = frame("std::__new_allocator<my::Node>::allocate(unsigned long, void const*)", MEMORY)
    # Its result is the library's, the function is not.
    user = frame("std::vector<int>* my::create<int>(int)", line=9)
    found = naming.purpose([asked, user, frame("std::vector<my::A>::push_back()", VECTOR)], "")
    assert found == naming.Purpose("my::Node", "allocator", "main.cpp:9")
    assert found.advice == "pooled::allocator"


KEY = ("T", "new")
PLAN = plan.Plan(b"", 1, 1, 2000, 1000.0, {KEY: 1000.0})


def a_census(found: trace.Trace, kinds: dict, of_event=None, of_usable=None) -> census.Census:
    return census.Census("/p", [found], kinds, [of_event or {}], [{}], [of_usable or {}])


def synthetic(events: list[tuple[int, int, int]]) -> trace.Trace:
    """Of (thread, address, size or 0 for an end), one a tick."""
    rows = np.zeros(len(events), trace.EVENT)
    for at, (_, address, size) in enumerate(events):
        kind = trace.ALLOCATE if size else trace.DEALLOCATE
        rows[at] = (at + 10, address, 1 if size else 0, kind | (100 << 10) | ((size or 64) << 28))
    threads = np.array([each[0] for each in events], np.uint32)
    window, last = trace.Window(0, len(events) + 10, 1.0), len(events) + 10
    return trace.Trace(Path("t"), "/p", 1, False, True, 1.0, 1.0, 1.0, 0, 0, last, [window], rows, threads)


def test_a_plan_keeps_order_and_creates_before_it_what_is_only_freed(monkeypatch):
    monkeypatch.setattr(plan, "FEWEST_EVENTS", 1)
    found = synthetic([(1, 0xA0, 50), (2, 0xB0, 0), (2, 0xA0, 0), (1, 0xA0, 60), (2, 0xA0, 0), (1, 0xA8, 8)])
    known = a_census(found, {KEY: census.Kind(*KEY, "x")}, {(1, 50): KEY, (1, 60): KEY})
    made = plan.make(known, [KEY])
    assert (made.threads, made.windows, made.events) == (2, 1, 6)
    assert made.pairs_of[KEY] == 2.5 and made.pairs == 3  # the one that is only freed has the size of these
    objects = np.frombuffer(made.data, plan.OBJECT, 4, offset=len(plan.MAGIC) + 12)
    assert objects["size"].tolist() == [50, 60, 8, 50] or objects["size"].tolist() == [50, 60, 8, 60]
    assert objects["before"].tolist() == [0, 0, 0, 1]  # by the thread that creates that size


@needs_compiler
def test_a_plan_is_carried_out_by_as_many_threads_in_its_order(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "FEWEST_EVENTS", 1)
    # What one thread creates the other drops, at once: a replay that lost the order would wait for ever, or crash.
    events = [each for at in range(4000) for each in ((1, 64 * at + 64, 50), (2, 64 * at + 64, 0))]
    found = synthetic([*events, (1, 1 << 40, 500), (2, 1 << 41, 0)])
    known = a_census(found, {KEY: census.Kind(*KEY, "x")}, {(1, 50): KEY})
    made, path = plan.make(known, [KEY]), tmp_path / "plan"
    path.write_bytes(made.data)
    replayer = native.replayer(lambda text: None)
    ours = Malloc(OURS, str(native.pooled_new(lambda text: None)))
    modes = saving.modes_of(made, [KEY], [KEY], ["glibc", OURS])
    assert {(mode.pooled, mode.malloc) for mode in modes} == {
        ("1", "glibc"), ("malloc", "glibc"), ("malloc,1", "glibc"), ("new", OURS), ("new,1", OURS), ("none", "glibc")
    }  # fmt: skip
    times = saving.measure(replayer, path, modes, {"glibc": Malloc("glibc"), OURS: ours}, 1, 1)
    assert all(0 < seconds < 10 for each in times.values() for seconds in each)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(Failed, match="the plan ends too early"):
        saving.measure(replayer, path, modes[:1], {"glibc": Malloc("glibc")}, 1, 1)


@needs_compiler
def test_only_what_is_asked_for_is_replayed(profiled):
    words = ["profile", "--json", "--samples", "3", "--only", "^my::Packet at", "--", str(profiled[1])]
    told = json.loads(invoke(*words).stdout)
    assert [each["type"] for each in told["types"] if each["saving"]] == ["my::Packet"]
    result = invoke("profile", "--only", "(", "--", profiled[1])
    assert result.exit_code == 2 and "no regular expression" in result.stderr


def test_a_saving_is_what_was_recorded_less_what_was_replayed():
    kind = census.Kind("T", "new", "x", objects=1e6, samples=100)
    kind.windows.append(np.array([[1.0, 100, 4000, 100, 1000]] * 6))  # 40 ns and 10 ns
    known = a_census(synthetic([(1, 1, 8)]), {KEY: kind})
    times = {
        saving.Mode("malloc"): [60e-6] * 5, saving.Mode("malloc", "other"): [30e-6] * 5, saving.Mode("1"): [20e-6] * 5,
        saving.Mode("malloc,1"): [20e-6] * 5, saving.Mode("malloc,1", "other"): [18e-6] * 5,
        saving.Mode(saving.NONE): [10e-6] * 5,
    }  # fmt: skip
    found = saving.conclude(known, PLAN, [KEY], [KEY], times)
    assert found.of_kind[KEY].ns == pytest.approx(40)  # 50 now, 10 then
    assert found.of_kind[KEY].share == pytest.approx(0.04)  # a million times 40 ns, of a second
    assert found.of_kind[KEY].verdict == "saves"
    assert found.of_malloc["other"].ns == pytest.approx(30)
    assert found.of_edit["other"].ns == pytest.approx(42) and found.adds["other"].ns == pytest.approx(12)
    told = report.answer(known, found)
    assert told.startswith("With no change, preload other: it saves 3.0–3.0 % of the program's time; an edit, ")
    assert told.endswith("(1 type, 100% of the allocations), saves 4.0–4.0 % alone, adds 1.2–1.2 % on other.")
    rows = {row[0]: row[1:] for row in report.malloc_sheet(found).rows}
    assert rows == {"glibc": ["–", "4.0–4.0 %", "4.0–4.0 %"], "other": ["3.0–3.0 %", "4.2–4.2 %", "1.2–1.2 %"]}
    checked = report.answer(known, found, {"glibc": 2.0, "other": 1.9})
    assert "preload other: it saves 3.0–3.0 % of the program's time; checked by one run each" in checked
    assert "-5% on other (predicted 3.0–3.0 % less)" in checked
    assert report.answer(known, found, {"glibc": 2.0, "other": 2.1}).startswith(
        "With no change, no other malloc saves anyth"
    )
    assert report.answer(known, found, busy=True) == report.BUSY
    assert report.record(known, found, busy=True)["ranking"] == []
    nothing = dataclasses.replace(found.adds["other"], low=-0.1)
    assert report.answer(known, saving.Savings({}, {"other": nothing}, [], {}, {})) == report.NOTHING


def test_calls_that_merge_freed_blocks_are_the_cost_of_the_small_objects():
    small, large = census.Kind("S", "new", "x", objects=3e6, bytes=3e6 * 48), census.Kind("L", "new", "x")
    large.objects, large.bytes = 1e3, 1e3 * 500
    found = synthetic([(1, 0xA0, 4096), (1, 0xA0, 0), (1, 0xA0, 4096), (1, 0xA0, 48)])
    assert census._costs(found).tolist() == [100.0] * 4
    found.events["bits"][0] |= np.uint64(((1 << 18) - 1) << 10)  # as long as an event can say
    found.long_calls = np.array([(10, 1, 4096, 300_000_000)], trace.LONG_CALL)
    assert census._costs(found).tolist() == [0.0, 100.0, 100.0, 100.0]  # that one is counted once, not for all windows
    known = a_census(found, {("S", "new"): small, ("L", "new"): large})
    census._settle_merging(known)
    assert small.cost_ns == small.merging_ns == pytest.approx(100) and large.cost_ns == 0
    assert known.share_inside == pytest.approx(0.3)
    assert small.cost_draws(np.random.default_rng(1), 3) == pytest.approx([100] * 3)
    assert "0.30 s of it in long calls that merge what was freed" in report.head(known)


def test_page_faults_are_the_cost_of_new_memory_which_no_change_saves():
    found = synthetic([(1, 0xA0 + at, 48) for at in range(10)])
    for at, ns in ((2, 3000), (5, 400), (7, 2000), (8, 1000)):
        found.events["bits"][at] = np.uint64(trace.ALLOCATE | (ns << 10) | (48 << 28))
    found.windows = [dataclasses.replace(found.windows[0], faults=2)]
    known = a_census(found, {KEY: census.Kind(*KEY, "x", objects=1e5)}, {(1, 48): KEY})
    census._count_events(known, 0, found)
    kind = known.kinds[KEY]
    # As many as there were faults, the longest ones.
    assert kind.malloc_ns == pytest.approx(700) and kind.new_memory_ns == pytest.approx(500)
    times = {saving.Mode(name): [ns * 1e-6] * 5 for name, ns in (("malloc", 300), ("1", 60), (saving.NONE, 10))}
    predicted = saving.conclude(known, PLAN, [KEY], [], times).of_kind[KEY]
    assert predicted.ns == pytest.approx(700 - 500 - 50) and predicted.share == pytest.approx(0.015)
    assert predicted.low == pytest.approx(predicted.high) == pytest.approx(0.015)
    assert "0.05 s of it in page faults, for new memory, which no change saves" in report.head(known)
    found.windows = [dataclasses.replace(found.windows[0], faults=50)]
    assert census._faults(found, found.event_costs, np.zeros(10, int)).sum() == 3  # no fault takes 400 ns


@needs_compiler
def test_a_window_says_how_many_page_faults_there_were(profiled, tmp_path):
    _, (found,) = record(profiled, tmp_path / "t", "grow")
    wrong = []
    for window in found.windows[:-1]:
        of_window = (found.events["tick"] >= window.begin) & (found.events["tick"] <= window.end)
        pages = np.count_nonzero(of_window) * 112 / 4096
        if not 0.5 * pages - 4 <= window.faults <= 1.5 * pages + 4:
            wrong.append((pages, window.faults))
    # A recorder that is stopped between a window's border and the count of faults counts those of the meantime, too.
    assert len(wrong) <= len(found.windows) / 4, wrong


@needs_compiler
def test_a_call_that_merges_what_was_freed_is_noted_outside_of_windows(profiled, tmp_path):
    status, (found,) = record(profiled, tmp_path / "t", "merge")
    assert status == 0
    merging = [each["cost"] / found.ticks_per_ns for each in found.long_calls if each["size"] == 4096]
    # 400,000 blocks; on a machine that is merely slow, the others are none of these.
    assert merging and found.long_ns >= sum(merging) > 400_000 * len(merging)
    assert all(1 << 10 <= each["size"] < 128 << 10 for each in found.long_calls)


def test_no_saving_exceeds_the_time_in_malloc_and_free_nor_that_the_programs():
    kind = census.Kind("T", "new", "x", objects=1e6, samples=100)
    kind.windows.append(np.array([[1.0, 100, 190_000, 100, 10_000]] * 6))  # 2 us an object: 2 s of a program of 1 s
    known = a_census(synthetic([(1, 1, 8)]), {KEY: kind})
    # The replay that allocates nothing took longer than the others, as noise may have it.
    own = {saving.Mode(saving.NONE): [30e-6] * 5}
    others = [saving.Mode("malloc"), saving.Mode("malloc", "other"), saving.Mode("1"), saving.Mode("malloc,1")]
    found = saving.conclude(known, PLAN, [KEY], [KEY], own | {mode: [20e-6] * 5 for mode in others})
    assert known.share_inside == pytest.approx(2.0)
    for each in (found.of_kind[KEY], found.of_malloc["other"], found.of_edit["glibc"]):
        assert each.ns == pytest.approx(1000) and each.share == pytest.approx(1.0)
        assert each.low <= each.high <= 1.0
    half = own | {mode: [530e-6] * 5 for mode in others}  # 500 ns an object after the change
    assert saving.conclude(known, PLAN, [KEY], [KEY], half).of_edit["glibc"].share == pytest.approx(0.5)


@needs_compiler
def test_a_call_that_waits_costs_the_processor_time_that_it_takes(profiled, tmp_path, monkeypatch):
    library = tmp_path / "libsleepy.so"
    source = SOURCE.with_name("sleepy_malloc.cpp")
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    status, (found,) = record(profiled, tmp_path / "t", "call")
    slept = found.event_costs[(found.event_sizes == 4242) & (found.event_kinds == trace.ALLOCATE)]
    assert status == 0 and len(slept) > 10
    # 200 us pass, and the duration of an event has room for 60 to 130 of them; the system call itself takes a few.
    assert np.median(slept) < 50_000


@needs_compiler
def test_a_trace_that_finds_no_place_is_named_and_the_report_is_made(profiled, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_a_full_disk(*arguments):
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # Python ignores the signal
        try:
            return before(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    before = launch.keep
    monkeypatch.setattr(launch, "keep", on_a_full_disk)
    told = invoke("profile", "--no-replay", "--keep", str(kept), "--", str(profiled[1]))
    assert told.exit_code == 1
    assert re.search(rf"not kept: {kept}/\S+\.pooltrace: File too large", told.stderr)
    assert "my::Packet" in told.stdout
    assert not list(kept.iterdir())


def test_a_prediction_is_checked_by_the_program_itself_and_what_it_measures_is_believed(monkeypatch):
    saves = saving.Saving(10.0, 0.3, 0.2, 0.4)
    predicted = {"a": dataclasses.replace(saves, share=0.35), "b": saves, OURS: saves}
    savings = saving.Savings({}, predicted, [], {}, {})
    known = a_census(synthetic([(1, 1, 8)]), {})
    monkeypatch.setattr(
        cli.mallocs, "find", lambda: ([Malloc("glibc"), Malloc("a", "/a.so"), Malloc("b", "/b.so")], {})
    )
    monkeypatch.setattr(native, "pooled_new", lambda say: Path("/new.so"))
    took = {"": 10 * known.cpu_seconds, "/a.so": 8 * known.cpu_seconds, "/new.so": 3 * known.cpu_seconds}
    monkeypatch.setattr(launch, "processor_seconds", lambda command, library: took[library])
    found = cli._checked(known, savings, ["program"])
    assert list(found) == ["glibc", "a", OURS]
    assert report.answer(known, savings, found).startswith(f"With no change, preload lib{OURS}.so")
    took[""] = 0.1 * known.cpu_seconds  # it read its input in the first run
    assert cli._checked(known, savings, ["program"]) == {}
    took["/a.so"] = None  # it failed
    assert cli._checked(known, savings, ["program"]) == {}


def test_a_run_that_checks_has_the_library_no_input_and_no_output(tmp_path, capfd):
    program = ["sh", "-c", f'cat; echo seen; echo "$LD_PRELOAD" > {tmp_path}/said; exit ${{STATUS:-0}}']
    assert launch.processor_seconds(program, "/nowhere.so") >= 0
    assert (tmp_path / "said").read_text().split()[0] == "/nowhere.so" and "seen" not in capfd.readouterr().out
    assert launch.processor_seconds(["false"], "") is None


def test_a_directory_that_cannot_keep_traces_is_said_before_the_program_runs(tmp_path):
    (tmp_path / "file").touch()
    words = ["profile", "--keep", str(tmp_path / "file" / "x"), "--", "touch", str(tmp_path / "ran")]
    result = invoke(*words)
    assert result.exit_code == 1 and "cannot be written" in result.stderr
    assert not (tmp_path / "ran").exists()


def test_frees_whose_begin_no_window_saw_are_known_by_what_outlives_a_window():
    found = synthetic([(1, 0xA0, 50), (1, 0xA0, 0), *[(1, 0xB00 + at, 0) for at in range(400)]])
    kinds = {key: census.Kind(*key, "x", objects=1.0) for key in [("Short", "new"), ("Long", "new"), ("Rare", "new")]}
    short, long, rare = kinds
    shares = {64: [(long, 48, 3.0), (rare, 60, 1.0)]}
    known = a_census(found, kinds, {(1, 50): short}, shares)
    census._count_events(known, 0, found)
    assert [kind.windows[0][0, 3] for kind in kinds.values()] == [1, 300, 100]  # frees
    assert kinds[long].free_ns == kinds[rare].free_ns == 100
    made = plan.make(known, [short, long])
    objects = np.frombuffer(made.data, plan.OBJECT, 401, offset=len(plan.MAGIC) + 12)
    assert (objects["size"][0], objects["group"][0]) == (50, 1)
    assert set(zip(objects["size"][1:].tolist(), objects["group"][1:].tolist(), strict=True)) == {(48, 2), (60, 0)}
    assert made.pairs_of[long] == pytest.approx(150, abs=30)


def test_faults_for_memory_that_malloc_gave_back_are_not_new_memory():
    windows = [trace.Window(0, 10, 1.0), trace.Window(20, 30, 1.0), trace.Window(40, 50, 1.0)]
    rows = [(0, 100, 90), (10, 300, 200), (20, 800, 250), (30, 1000, 250)]
    (first, second, third) = trace._with_faults(windows, np.array(rows, trace.FAULT_COUNT))
    assert (first.faults, second.faults, third.faults) == (50, 50, 0)  # 250 pages of 1,000 faults
    (first, *_) = trace._with_faults(windows, np.array([(0, 100, 150), (10, 300, 400)], trace.FAULT_COUNT))
    assert first.faults == 200
