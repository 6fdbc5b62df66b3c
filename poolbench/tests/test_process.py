# SPDX-License-Identifier: BSL-1.0
import os
import subprocess
import sys
import time

from poolbench.system import process


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


def test_both_streams_and_the_status_are_kept():
    ended = shell("echo out; echo err >&2; exit 3")
    assert (ended.status, ended.stdout, ended.stderr) == (3, "out\n", "err\n")


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
    children = f"/proc/{driver.pid}/task/{driver.pid}/children"
    pid = ""
    for _ in range(500):
        with open(children) as file:
            pid = file.read().strip()
        if pid:
            break
        time.sleep(0.01)
    time.sleep(0.1)
    driver.kill()
    driver.wait()
    assert gone(int(pid))
