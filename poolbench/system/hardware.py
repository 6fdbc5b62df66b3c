# SPDX-License-Identifier: BSL-1.0
"""What this machine is: what a reader needs to know before comparing figures with his own. Linux tells all of it in
files; what a file does not tell is "unknown" and never a number."""

import os
import platform
import re
import time
from pathlib import Path

from poolbench.results.read import BUSY

UNKNOWN = "unknown"
CPU_DIRECTORY = Path("/sys/devices/system/cpu/cpu0")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")


def _text(path: Path | str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _field(path: str, key: str) -> str:
    for line in _text(path).splitlines():
        name, separator, value = line.partition(":")
        if separator and name.strip() == key:
            return value.strip()
    return UNKNOWN


def _caches() -> list[str]:
    """For instance "L1 Data 32K", "L3 Unified 32768K shared by 0-1"."""
    found = []
    for index in sorted(CPU_DIRECTORY.glob("cache/index*")):
        level, kind, size = (_text(index / name) for name in ("level", "type", "size"))
        shared = _text(index / "shared_cpu_list")
        if level and size:
            found.append(f"L{level} {kind} {size}" + (f" shared by {shared}" if re.search("[-,]", shared) else ""))
    return found


def _chosen(text: str) -> str:
    """The word in brackets: "always [madvise] never" means madvise."""
    found = re.search(r"\[(\S+)\]", text)
    return found.group(1) if found else text or UNKNOWN


def _processor() -> str:
    """For instance "AMD EPYC, family 26 model 2": in virtual machines, processors of several kinds have one name."""
    name, family, model = (_field("/proc/cpuinfo", key) for key in ("model name", "cpu family", "model"))
    return name if UNKNOWN in (family, model) else f"{name}, family {family} model {model}"


def describe() -> dict:
    kib = re.match(r"(\d+) kB", _field("/proc/meminfo", "MemTotal"))
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "caches": _caches() or [UNKNOWN],
        "memory_mib": int(kib.group(1)) // 1024 if kib else None,
        "huge_pages": {
            "transparent": _chosen(_text(HUGE_PAGES / "enabled")),
            "defrag": _chosen(_text(HUGE_PAGES / "defrag")),
            "reserved": _field("/proc/meminfo", "HugePages_Total"),
        },
        "governor": _text(CPU_DIRECTORY / "cpufreq" / "scaling_governor") or UNKNOWN,
        "kernel": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()) or UNKNOWN,
        "virtual_machine": "hypervisor" in _field("/proc/cpuinfo", "flags").split(),
    }


def in_short(machine: dict) -> str:
    """One line that goes into every record, e.g. "AMD EPYC, family 26 model 2, 2 cores, 24105 MiB, Linux 6.18"."""
    parts = [str(machine["cpu"]), f"{machine['cores']} cores", f"{machine['memory_mib']} MiB", str(machine["kernel"])]
    return ", ".join(parts) + (" (virtual machine)" if machine["virtual_machine"] else "")


def _processor_times() -> tuple[int, int]:
    """Clock ticks of all cores since the start, and those of them that were idle (or waited for a disk)."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]


def busy_share() -> float:
    """The share of all processor time that others use now. The load average would still tell of our own build."""
    try:
        total, idle = _processor_times()
        time.sleep(0.5)
        later, idle_later = _processor_times()
    except (OSError, ValueError, IndexError):
        return 0.0
    return 1 - (idle_later - idle) / (later - total) if later > total else 0.0


def busy_warning(share: float) -> str:
    if share < BUSY:
        return ""
    return f"the machine is busy with other work ({share:.0%} of its processors): times measured now do not count"
