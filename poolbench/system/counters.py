# SPDX-License-Identifier: BSL-1.0
"""Whether the processor's event counters can be read here. Virtual machines and containers often refuse: then the
answer is "unavailable" with the reason, never a zero."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

# perf_event_open(2): its number on each architecture, and the two events asked for (PERF_TYPE_HARDWARE).
SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
EVENTS = {"cycles": 0, "instructions": 1, "cache misses": 3}
ATTRIBUTE_BYTES = 64  # PERF_ATTR_SIZE_VER0
EXCLUDE_KERNEL_AND_HYPERVISOR = (1 << 5) | (1 << 6)


def _why_not(event: int) -> str:
    """Empty when the counter opens."""
    number = SYSTEM_CALL.get(platform.machine())
    if number is None:
        return f"not asked on {platform.machine()}"
    attribute = struct.pack("=IIQQQQQ", 0, ATTRIBUTE_BYTES, event, 0, 0, 0, EXCLUDE_KERNEL_AND_HYPERVISOR)
    buffer = ctypes.create_string_buffer(attribute.ljust(ATTRIBUTE_BYTES, b"\0"), ATTRIBUTE_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(number, buffer, 0, -1, -1, 0)
    if descriptor < 0:
        return os.strerror(ctypes.get_errno())
    os.close(descriptor)
    return ""


def describe() -> dict[str, str]:
    return {name: f"unavailable ({why})" if (why := _why_not(event)) else "available" for name, event in EVENTS.items()}
