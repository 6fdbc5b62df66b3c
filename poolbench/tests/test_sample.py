# SPDX-License-Identifier: BSL-1.0
import json
import os
import subprocess
import sys
import time

import pytest

from poolbench.measure import sample
from poolbench.plan.program import Program
from poolbench.system import process
from poolbench.system.mallocs import Malloc
from poolbench.tests import support

GLIBC = Malloc("glibc")
GOOD = {"workload": "w", "contender": "make_shared", "ns_per_op": 2.0, "ops": 10, "malloc": "glibc"}
GOOD |= {"malloc_path": os.__file__, "operation": "one op", "bytes_each": 64}


def take(tmp_path, body, malloc=GLIBC, limit=10.0, **cell):
    path = support.program(tmp_path / "bench", body)
    bench = Program("gcc", path, "-O3", "fake 1", "fakestd", "-O3", "0", {})
    return sample.take(support.cell(malloc=malloc.name, **cell), bench, malloc, limit)


def test_a_preloaded_library_that_is_not_there_is_a_failure_and_not_glibcs_figure(tmp_path):
    said = f"print({json.dumps(GOOD)!r})"
    result = take(tmp_path, said, Malloc("jemalloc", "/nowhere/libjemalloc.so.2"))
    assert result.sample is None
    assert result.failure["kind"] == "wrong"
    assert result.failure["reason"] == (
        "ran on glibc, not on jemalloc (/nowhere/libjemalloc.so.2, which does not exist)"
    )


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ("import sys; sys.exit('out of memory')", "crash", "exit status 1: out of memory"),
        ("import os; os.kill(os.getpid(), 11)", "crash", "signal 11 (SIGSEGV)"),
        ("print('begun', flush=True); import time; time.sleep(60)", "hang", "no result within 0.5 s"),
        ("pass", "no result", "printed no result"),
        ("print('not json')", "no result", "printed no result"),
        ("print('[1]')", "no result", "printed no result"),
        ('print(\'{"ns_per_op": 0, "ops": 1}\')', "no result", "printed no result"),
        ('print(\'{"ns_per_op": NaN, "ops": 1}\')', "no result", "printed no result"),
    ],
)
def test_a_run_that_goes_wrong_says_how(tmp_path, body, kind, reason):
    failure = take(tmp_path, body, limit=0.5 if kind == "hang" else 10).failure
    assert failure["kind"] == kind
    assert reason in failure["reason"]


def test_settings_of_the_mallocs_do_not_reach_the_process(monkeypatch):
    monkeypatch.setenv("MALLOC_CONF", "narenas:1")
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so")
    assert set(sample.environment(Malloc("glibc"))) <= {"PATH", "LD_LIBRARY_PATH", "LC_ALL"}
    assert sample.environment(Malloc("x", "/lib/x.so"))["LD_PRELOAD"] == "/lib/x.so"


# --- processes


def shell(text, limit=10.0):
    return process.run(["/bin/sh", "-c", text], dict(os.environ), limit)


def gone(pid: int) -> bool:
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_command_over_its_limit_is_ended_with_its_children():
    ended = shell("echo begun; sleep 60 & echo $!; wait", limit=0.3)
    assert ended.status is None
    assert ended.stdout.startswith("begun\n")
    assert ended.seconds < 5
    assert gone(int(ended.stdout.split()[1]))


def test_a_child_left_behind_that_holds_the_pipes_does_not_hold_us():
    ended = shell("sleep 60 & echo $!")
    assert ended.status == 0
    assert ended.seconds < 5
    assert gone(int(ended.stdout))


def test_of_much_output_the_end_is_kept():
    ended = shell("seq 1 200000; echo last")
    assert ended.status == 0
    assert ended.stdout.endswith("200000\nlast\n")
    assert len(ended.stdout) <= process.KEPT_BYTES


def test_a_driver_that_is_killed_takes_the_command_with_it():
    code = (
        "import os; from poolbench.system import process;"
        "process.run(['/bin/sh', '-c', 'echo $$ >&2; exec sleep 60'], dict(os.environ), 60)"
    )
    # The command's standard error goes to the driver, so its id is found among the driver's children.
    driver = subprocess.Popen([sys.executable, "-c", code])
    while not (found := support.children(driver.pid)):
        time.sleep(0.01)
    time.sleep(0.1)
    driver.kill()
    driver.wait()
    assert gone(found[0])
