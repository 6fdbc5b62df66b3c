# SPDX-License-Identifier: BSL-1.0
"""The report of a profile: a table of types, the time in malloc, and a ranked list of changes."""

from pathlib import Path

import typer

from poolbench.system.mallocs import DEFAULT, OURS
from poolbench.tables import NONE, Sheet, number, print_text
from poolprofile.census import Census, Kind
from poolprofile.saving import Saving, Savings

SHOWN = 12  # types
NOT_PREDICTED = (
    "Predicted from a replay, of the time in malloc and free alone, in 95% intervals. Where objects and code lie "
    "decides, too, for better or worse: measure a change before you keep it."
)
BUSY = "The machine was busy with other work, so nothing is recommended: profile it again while nothing else runs."
NOTHING = "malloc is good enough here: no change saves a significant share of the time."
NEGLIGIBLE = 0.01  # of the program's time: a smaller saving is not worth a change


def _in_units(value: float, units: tuple[str, str, str], smallest: str) -> str:
    for unit, size in zip(units, (1e9, 1e6, 1e3), strict=True):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return smallest


def duration(ns: float | None) -> str:
    return "to the end" if ns is None else _in_units(ns, ("s", "ms", "us"), f"{number(ns)} ns")


def amount(count: float) -> str:
    return _in_units(count, ("G", "M", "k"), f"{count:.0f}")


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def percent(saving: Saving) -> str:
    """The interval; with "to" where an end is negative, as a dash beside a sign is hard to read."""
    low, high = saving.low * 100, saving.high * 100
    if low >= 0:
        return f"{low:.1f}–{high:.1f} %"
    return f"below -100 to {high:.1f} %" if low < -100 else f"{low:.1f} to {high:.1f} %"


def _row(kind: Kind, census: Census) -> list[str]:
    seconds = max(census.seconds, 1e-9)
    return [
        kind.name,
        kind.how,
        kind.site,
        amount(kind.objects / seconds),
        number(kind.size),
        duration(kind.median_life()),
        amount(kind.live(seconds)),
        share(kind.remote_share),
        number(kind.malloc_ns),
        number(kind.free_ns),
        share(kind.objects * kind.cost_ns / 1e9 / max(census.cpu_seconds, 1e-9)),
    ]


COLUMNS = ["type", "created by", "at", "objects/s", "bytes", "median life", "live", "freed elsewhere", "malloc ns",
           "free ns", "of CPU time"]  # fmt: skip


def sheet(census: Census) -> Sheet:
    ranked = census.ranked()
    rest = len(ranked) - SHOWN
    note = "freed elsewhere: by another thread; malloc and free ns: the calls, as recorded; live: on average"
    note += f"; {rest} kinds more: --json lists all" if rest > 0 else ""
    title = "What it allocates, by time in malloc and free"
    return Sheet(title, COLUMNS, [_row(kind, census) for _, kind in ranked[:SHOWN]], note, {"type", "created by", "at"})


def head(census: Census) -> str:
    windows = sum(len(each.windows) for each in census.traces)
    processes = f" in {len(census.traces)} processes" if len(census.traces) > 1 else ""
    inside = census.share_inside
    # Calls are timed by the clock: where others interrupt them, they seem to take longer than the program had.
    told = f"{inside:.0%} of" if inside <= 1 else "as far as a run so short, or so disturbed, can tell all of"
    told += " the processor time in malloc and free"
    for seconds, why in (
        (census.merging_seconds, "in long calls that merge what was freed"),
        (census.new_memory_seconds, "in page faults, for new memory, which no change saves"),
    ):
        told += f", {seconds:.2f} s of it {why}" if seconds >= NEGLIGIBLE * census.cpu_seconds else ""
    return (
        f"{census.program}: {census.seconds:.2f} s, {census.cpu_seconds:.2f} s of processor time{processes}; "
        f"{amount(census.objects)} allocations, {told} "
        f"({sum(kind.samples for kind in census.kinds.values()):,} samples, {windows} windows)"
    )


def _sentence(kind: Kind, saving: Saving) -> str:
    change = f"`{kind.name}` at {kind.site}: {kind.how} → {kind.advice}"
    if saving.verdict == "saves":
        return f"{change}, saves {percent(saving)} of the program's time ({saving.ns:.0f} ns an object)"
    if saving.verdict == "costs":
        return f"{change}, would COST {-saving.high * 100:.1f}–{-saving.low * 100:.1f} %: leave it"
    return f"{change}: no sure saving ({percent(saving)})"


def sentences(census: Census, savings: Savings) -> list[str]:
    """The surest gains first."""
    order = {"saves": 0, "undecided": 1, "costs": 2}
    ranked = sorted(savings.of_kind.items(), key=lambda item: (order[item[1].verdict], -item[1].share))
    found = [f"{at}. {_sentence(census.kinds[key], each)}" for at, (key, each) in enumerate(ranked, 1)]
    return found or ["Nothing that it allocates can be pooled by a change of a line, or is worth it."]


def best_of(savings: Savings) -> str:
    """The malloc that is predicted to save most; empty when none surely saves."""
    better = {name: each for name, each in savings.of_malloc.items() if each.verdict == "saves"}
    return max(better, key=lambda name: better[name].share, default="")


def answer(census: Census, savings: Savings, checked: dict[str, float] | None = None, busy: bool = False) -> str:
    """What to do with no change, and what an edit adds, in one sentence. `checked`: malloc -> processor seconds of a
    run of the program itself, which decides which one is named."""
    if busy:
        return BUSY
    best = best_of(savings)
    less = {name: 1 - took / checked[DEFAULT] for name, took in (checked or {}).items() if name != DEFAULT}
    if less:
        best = max(less, key=lambda name: less[name])
        best = best if less[best] >= NEGLIGIBLE else ""
    every = [*savings.of_kind.values(), *savings.of_malloc.values(), *savings.of_edit.values()]
    if all(each.verdict != "saves" for each in every):
        return NOTHING
    if max(each.high for each in every) < NEGLIGIBLE:
        return f"malloc is good enough here: nothing saves as much as {NEGLIGIBLE:.0%} of the program's time."
    told = f"With no change, no other malloc {'saves' if less else 'is predicted to save'} anything"
    if best:
        library = f"lib{best}.so" if best == OURS else best
        told = f"With no change, preload {library}: it saves {percent(savings.of_malloc[best])} of the program's time"
    if less:
        runs = ", ".join(
            f"{-share:+.0%} on {name} (predicted {percent(savings.of_malloc[name])} less)"
            for name, share in less.items()
        )
        told += f"; checked by one run each of the program itself, processor time: {runs}"
    if not savings.adds:
        return told + "; no make_shared call was seen whose edit could add to that."
    objects = sum(census.kinds[key].objects for key in savings.edited) / max(census.objects, 1.0)
    types = len(savings.edited)
    told += (
        f"; an edit, pooled::make_shared everywhere ({types} type{'s' * (types > 1)}, {objects:.0%} of the "
        f"allocations), saves {percent(savings.of_edit[DEFAULT])} alone"
    )
    more = [name for name in dict.fromkeys((best, OURS)) if name in savings.adds]
    return told + "".join(f", adds {percent(savings.adds[name])} on {name}" for name in more) + "."


def malloc_sheet(savings: Savings) -> Sheet:
    told = [savings.of_malloc, savings.of_edit, savings.adds]
    names = [DEFAULT, *savings.of_malloc]
    rows = [[name, *(percent(of[name]) if name in of else NONE for of in told)] for name in names]
    columns = ["malloc", "with no change", "and make_shared pooled", "which adds"]
    note = f"shares of the program's time; {OURS}: operator new and delete on the pool, lib{OURS}.so"
    return Sheet("What each malloc, preloaded, would save", columns, rows, note, {"malloc"})


def tell(census: Census, savings: Savings | None, checked: dict[str, float] | None = None, busy: bool = False) -> None:
    if savings is not None:
        typer.echo(answer(census, savings, checked, busy) + "\n")
        print_text(malloc_sheet(savings))
    if savings is not None and not busy:
        typer.echo("What pooling one type would save:")
        for line in (*sentences(census, savings), NOT_PREDICTED, ""):
            typer.echo(line)
    typer.echo(head(census) + "\n")
    print_text(sheet(census))


def _saving_record(saving: Saving | None) -> dict | None:
    if saving is None:
        return None
    return {
        "ns_per_object": saving.ns, "share_of_cpu_time": saving.share, "low": saving.low, "high": saving.high,
        "verdict": saving.verdict,
    }  # fmt: skip


def record(
    census: Census, savings: Savings | None, checked: dict[str, float] | None = None, busy: bool = False
) -> dict:
    found = savings or Savings({}, {}, [], {}, {})
    plan, seconds = found.plan, max(census.seconds, 1e-9)
    kinds = [
        {
            "type": kind.type,
            "created_by": kind.how,
            "sites": [{"at": where, "objects": count} for where, count in kind.sites.most_common(10)],
            "samples": kind.samples,
            "objects": kind.objects,
            "objects_per_second": kind.objects / seconds,
            "bytes_each": kind.size,
            "median_life_ns": kind.median_life(),
            "live": kind.live(seconds),
            "freed_by_another_thread": kind.remote_share,
            "malloc_ns": kind.malloc_ns,
            "free_ns": kind.free_ns,
            "merging_ns": kind.merging_ns,
            "new_memory_ns": kind.new_memory_ns,
            "instead": kind.advice or None,
            "saving": _saving_record(found.of_kind.get(key)),
        }
        for key, kind in census.ranked()
    ]
    return {
        "program": census.program,
        "processes": len(census.traces),
        "seconds": census.seconds,
        "cpu_seconds": census.cpu_seconds,
        "allocations": census.objects,
        "traces": [str(Path(each.path).name) for each in census.traces],
        "types": kinds,
        "mallocs": {malloc: _saving_record(each) for malloc, each in found.of_malloc.items()},
        "make_shared_pooled": {malloc: _saving_record(each) for malloc, each in found.of_edit.items()},
        "make_shared_adds": {malloc: _saving_record(each) for malloc, each in found.adds.items()},
        "checked_cpu_seconds": checked or None,
        "answer": answer(census, savings, checked, busy) if savings else None,
        "replayed": {"calls": plan.events, "windows": plan.windows, "threads": plan.threads} if plan else None,
        "ranking": sentences(census, savings) if savings and not busy else [],
    }
