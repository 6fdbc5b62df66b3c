# SPDX-License-Identifier: BSL-1.0
"""Reading what the recorder wrote, and noting on which machine it did; the layout is that of
cpp/trace_format.hpp, see trace-format.md."""

import json
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from poolbench.errors import BadInput
from poolbench.results.read import MACHINE

MAGIC = b"pooltrc\n"
VERSION = 2
HEADER = struct.Struct("<8sIIIIIIQQQQQQQ1024s")
WINDOW = struct.Struct("<4Q")
MOST_WINDOWS = 1000
SESSION = struct.Struct("<1024s")
SESSION_AT = HEADER.size + MOST_WINDOWS * WINDOW.size
BLOCK = struct.Struct("<4I")
TEXT = struct.Struct("<4I")
EVENTS, SAMPLES, TEXTS, LONG_CALLS, FAULTS = 1, 2, 3, 4, 5
STACK, TYPE, MODULE = 1, 2, 3
FULL, ENDED = 1, 2

EVENT = np.dtype([("tick", "<u8"), ("address", "<u8"), ("caller", "<u8"), ("bits", "<u8")])
SAMPLE = np.dtype(
    [("id", "<u8"), ("tick", "<u8"), ("caller", "<u8"), ("size", "<u8"), ("weight", "<u4"), ("text", "<u4"),
     ("end", "<u4"), ("gap", "<u4")]
)  # fmt: skip
LONG_CALL = np.dtype([("tick", "<u8"), ("caller", "<u8"), ("size", "<u8"), ("cost", "<u8")])
FAULT_COUNT = np.dtype([("tick", "<u8"), ("count", "<u8"), ("pages", "<u8")])
ROWS = {EVENTS: EVENT, SAMPLES: SAMPLE, LONG_CALLS: LONG_CALL, FAULTS: FAULT_COUNT}
ALLOCATE, DEALLOCATE, RESIZE_NEW, RESIZE_OLD = 1, 2, 3, 4
FREED, NOT_FOLLOWED = 1, 2


@dataclass(frozen=True)
class Window:
    begin: int  # ticks
    end: int
    cpu_seconds: float
    faults: int = 0  # page faults of the process in it, for new memory


@dataclass(frozen=True)
class Module:
    base: int  # what is added to the file's addresses
    begin: int
    end: int
    path: str


@dataclass
class Trace:
    path: Path
    program: str
    pid: int
    full: bool  # the size bound was reached: what followed is missing
    ended: bool  # by exit; else it was killed, replaced itself by exec, or left by _exit
    seconds: float
    cpu_seconds: float
    ticks_per_ns: float
    clock_cost: int
    begin_tick: int
    last_tick: int
    windows: list[Window]
    events: np.ndarray = field(default_factory=lambda: np.empty(0, EVENT))  # by time
    event_threads: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))
    samples: np.ndarray = field(default_factory=lambda: np.empty(0, SAMPLE))
    sample_threads: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint32))
    stacks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)  # mangled
    modules: list[Module] = field(default_factory=list)
    long_calls: np.ndarray = field(default_factory=lambda: np.empty(0, LONG_CALL))
    session: dict = field(default_factory=dict)  # machine, time, busy_share; empty: not noted

    @property
    def event_kinds(self) -> np.ndarray:
        return (self.events["bits"] & 0xF).astype(np.uint8)

    @property
    def event_aligns(self) -> np.ndarray:
        return ((self.events["bits"] >> np.uint64(4)) & np.uint64(0x3F)).astype(np.uint8)

    @property
    def event_costs(self) -> np.ndarray:
        """Nanoseconds of processor time of each call, without the cost of the counter. May be below zero: the counter
        may advance in steps that are longer than a call, so that only means of many calls are figures."""
        ticks = ((self.events["bits"] >> np.uint64(10)) & np.uint64(0x3FFFF)).astype(float)
        return (ticks - self.clock_cost) / self.ticks_per_ns

    @property
    def long_ns(self) -> float:
        """Of all calls that merged what was freed earlier, and took long."""
        return float(self.long_calls["cost"].sum()) / self.ticks_per_ns

    @property
    def event_sizes(self) -> np.ndarray:
        return (self.events["bits"] >> np.uint64(28)).astype(np.int64)


def _texts(trace: Trace, records: bytes) -> None:
    at = 0
    while at + TEXT.size <= len(records):
        kind, number, size, _ = TEXT.unpack_from(records, at)
        body = records[at + TEXT.size : at + TEXT.size + size]
        if len(body) < size:
            break  # the process ended in the middle of it
        if kind == STACK:
            trace.stacks[number] = struct.unpack(f"<{size // 8}Q", body[: size // 8 * 8])
        elif kind == TYPE:
            trace.types[number] = body.decode(errors="replace")
        elif kind == MODULE and size >= 24:
            found = Module(*struct.unpack_from("<3Q", body), body[24:].decode(errors="replace"))
            if found not in trace.modules:
                trace.modules.append(found)
        at += TEXT.size + (size + 7) // 8 * 8


def _windows(data, count: int, last_tick: int, last_cpu: int) -> list[Window]:
    found = []
    for number in range(count):
        begin, end, cpu_begin, cpu_end = WINDOW.unpack_from(data, HEADER.size + number * WINDOW.size)
        # One that the process's end closed: as far as is known.
        end, cpu_end = (end, cpu_end) if end else (max(last_tick, begin), max(last_cpu, cpu_begin))
        found.append(Window(begin, end, (cpu_end - cpu_begin) / 1e9))
    return found


def _with_faults(windows: list[Window], noted: np.ndarray) -> list[Window]:
    """Of more faults than the process ever had pages, most were for memory that malloc had given back: a part of what
    malloc costs. The same share of each window's faults is for new memory."""
    counts = {int(each["tick"]): int(each["count"]) for each in noted}
    last = noted[np.argmax(noted["tick"])]
    share = min(1.0, float(last["pages"]) / max(1.0, float(last["count"])))
    return [
        replace(each, faults=round(share * max(0, counts[each.end] - counts[each.begin])))
        if each.begin in counts and each.end in counts
        else each
        for each in windows
    ]


def _header(path: Path, data: bytes) -> tuple:
    if len(data) < HEADER.size:
        raise BadInput(f"{path} is no trace, or cut off: {len(data)} bytes")
    values = HEADER.unpack_from(data)
    if values[0] != MAGIC:
        raise BadInput(f"{path} is no trace: poolbench profile writes them (*.pooltrace)")
    if values[1] != VERSION:
        raise BadInput(
            f"{path} has version {values[1]} of the trace format, this poolbench reads {VERSION}: "
            "read it with the poolbench that recorded it, or record it again"
        )
    return values


def _session(text: bytes) -> dict:
    try:
        found = json.loads(text.split(b"\0", 1)[0])
    except ValueError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("machine"), dict) else {}


def note(path: Path, machine: dict, time: str, busy_share: float) -> None:
    """Writes into the trace of an ended process the machine, the time, and how busy the machine was."""
    shown = {name: machine.get(name) for name in MACHINE}
    text = json.dumps({"machine": shown, "time": time, "busy_share": round(busy_share, 3)}).encode()
    with path.open("r+b") as file:
        if len(text) < SESSION.size and len(file.read(HEADER.size)) == HEADER.size:
            file.seek(SESSION_AT)
            file.write(SESSION.pack(text))


def read(path: Path) -> Trace:
    """Raises BadInput."""
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    values = _header(path, bytes(data[: HEADER.size]))
    header_bytes, block_bytes, window_count, pid, flags, used = values[2:8]
    begin_tick, begin_ns, last_tick, last_ns, last_cpu, clock_cost, program = values[8:]
    if used > len(data) or header_bytes < HEADER.size + window_count * WINDOW.size or block_bytes <= BLOCK.size:
        raise BadInput(f"{path} is cut off: it says that {used:,} bytes are used, and has {len(data):,}; copy it again")
    last_tick = max(last_tick, begin_tick + 1)
    trace = Trace(
        path=path,
        program=program.split(b"\0", 1)[0].decode(errors="replace"),
        pid=pid,
        full=bool(flags & FULL),
        ended=bool(flags & ENDED),
        seconds=(last_ns - begin_ns) / 1e9,
        cpu_seconds=last_cpu / 1e9,
        ticks_per_ns=(last_tick - begin_tick) / max(1, last_ns - begin_ns),
        clock_cost=clock_cost,
        begin_tick=begin_tick,
        last_tick=last_tick,
        windows=_windows(bytes(data[:header_bytes]), window_count, last_tick, last_cpu),
        session=_session(bytes(data[SESSION_AT : SESSION_AT + SESSION.size])),
    )
    parts = {kind: [(np.empty(0, row), np.empty(0, np.uint32))] for kind, row in ROWS.items()}
    for at in range(header_bytes, used - block_bytes + 1, block_bytes):
        kind, thread, filled, _ = BLOCK.unpack(bytes(data[at : at + BLOCK.size]))
        records = data[at + BLOCK.size : at + BLOCK.size + min(filled, block_bytes - BLOCK.size)]
        if kind == TEXTS:
            _texts(trace, bytes(records))
        elif kind in ROWS:
            whole = records[: len(records) // ROWS[kind].itemsize * ROWS[kind].itemsize].view(ROWS[kind])
            parts[kind].append((whole, np.full(len(whole), thread, np.uint32)))
    rows = {kind: [np.concatenate(each) for each in zip(*those, strict=True)] for kind, those in parts.items()}
    for kind in (EVENTS, SAMPLES):
        order = np.argsort(rows[kind][0]["tick"], kind="stable")
        rows[kind] = [each[order] for each in rows[kind]]
    trace.events, trace.event_threads = rows[EVENTS]
    trace.samples, trace.sample_threads = rows[SAMPLES]
    trace.long_calls = rows[LONG_CALLS][0]
    if len(rows[FAULTS][0]):
        trace.windows = _with_faults(trace.windows, rows[FAULTS][0])
    if len(trace.events) or len(trace.samples):
        latest = max(int(each["tick"].max()) for each in (trace.events, trace.samples) if len(each))
        if latest > trace.last_tick:  # it was killed after its last record, which is newer than the time in the header
            trace.seconds += (latest - trace.last_tick) / trace.ticks_per_ns / 1e9
    return trace
