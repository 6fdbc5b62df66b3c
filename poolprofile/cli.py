# SPDX-License-Identifier: BSL-1.0
"""poolbench profile, which is poolprofile run, and replay: would pooling help this program, and where?"""

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import typer

from poolbench import options
from poolbench.errors import BadInput, Failed
from poolbench.measure.progress import Progress
from poolbench.options import argument, option
from poolbench.results import record
from poolbench.results.read import Results
from poolbench.system import hardware, mallocs
from poolprofile import launch, native

EPILOG_PROFILE = """\b
Examples:
  poolbench profile -- ./server --port 8080        until it ends, or Ctrl-C
  timeout 60 poolbench profile -- ./server         for a minute
  poolbench profile --keep traces -- ./parser big.json
  poolbench profile --only '^Packet at' -- ./server  what a change of one type saves
  poolbench profile --json -- ./parser big.json    the program's own output goes to standard error
\b
Build the program as you ship it, with -g: then types and lines are named. A stripped program's polymorphic types and
control blocks are still named, by their type information. Exit status: 0 reported; 1 nothing could be replayed or
compiled; 2 the program cannot be recorded; 130 interrupted.
"""
EPILOG_REPLAY = """\b
Examples:
  poolbench replay traces/4711-0.pooltrace
  poolbench replay --samples 15 --json traces/*.pooltrace
"""
DEFAULT_MEBIBYTES = 192
STANDARD_ERROR = 2
NOT_KEPT = "trace not kept (--keep DIRECTORY keeps it)"
WORTH = 0.0005  # of the program's time: what pays less than this is not replayed

CommandArgument = argument(list[str], "The program and its arguments.", metavar="PROGRAM", show_default=False)
SamplesOption = option(int, "Replays of each variant, each in its own process.", metavar="N", min=3, max=1000)
TopOption = option(int, "Number of types whose saving is measured.", metavar="N", min=1, max=50)
OnlyOption = option(str | None, "Measure the saving only where 'TYPE at FILE:LINE' matches.", metavar="REGEX")
SAME_WORK = 0.5  # of the processor time that was recorded: a run that takes less did something else
CHECKED_SECONDS = 60.0  # a program that takes longer is not run again unasked
NoReplayOption = option(bool, "Only count; do not predict savings.", "--no-replay")


def _census(traces: list):
    from poolprofile import census

    mine, others = census.busiest(traces)
    if others:
        names = ", ".join(sorted({Path(each.program).name for each in others}))
        options.say(f"{len(others)} more processes were recorded, of {names}; the report is of {mine[0].program}")
    if any(each.full for each in mine):
        options.complain("the trace reached its size bound: what came later is missing (--most-mebibytes)")
    return census.take(mine)


def _pattern(only: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(only) if only is not None else None
    except re.error as error:
        raise BadInput(f"--only {only} is no regular expression: {error}") from error


def _candidates(found, only: re.Pattern[str] | None) -> list:
    """What can be pooled, and is worth a replay or was asked for."""
    if only:
        poolable = {key: f"{kind.name} at {kind.site}" for key, kind in found.kinds.items() if kind.advice}
        chosen = [key for key, text in poolable.items() if only.search(text)]
        if not chosen:
            options.complain(f"--only {only.pattern}: nothing that can be pooled has such a name, 'TYPE at FILE:LINE'")
        return chosen
    return [
        key
        for key, kind in found.kinds.items()
        if kind.advice and kind.objects * max(kind.cost_ns, 5.0) / 1e9 > WORTH * found.cpu_seconds
    ]


@dataclass(frozen=True)
class Replays:
    """What is replayed, and how often."""

    samples: int
    top: int  # kinds
    only: re.Pattern[str] | None
    seed: int


def _savings(found, asked: Replays):
    """Savings, or None when there is nothing that could be replayed."""
    from poolprofile import plan, saving

    candidates = _candidates(found, asked.only)
    ranked = sorted(candidates, key=lambda key: -found.kinds[key].objects * max(found.kinds[key].cost_ns, 5.0))
    ranked = ranked[: asked.top]
    edited = [] if asked.only else [key for key, kind in found.kinds.items() if kind.how.endswith("::make_shared")]
    planned = plan.make(found, list(dict.fromkeys([*ranked, *edited])))
    if planned is None:
        return None
    ranked, edited = ([key for key in keys if planned.pairs_of[key] > 0] for keys in (ranked, edited))
    libraries = {malloc.name: malloc for malloc in mallocs.find()[0]}
    if any(kind.advice for kind in found.kinds.values()):  # not of a program in C
        try:
            libraries[mallocs.OURS] = mallocs.Malloc(mallocs.OURS, str(native.pooled_new(options.say)))
        except Failed as error:
            options.complain(f"{mallocs.OURS} is not replayed: {error}")
    modes = saving.modes_of(planned, ranked, edited, libraries)
    replayer = native.replayer(options.say)
    options.say(
        f"replaying {planned.events:,} calls of {planned.windows} windows on {planned.threads} threads, "
        f"{len(modes)} ways, {asked.samples} times each"
    )
    with tempfile.TemporaryDirectory(prefix="poolbench-") as directory:
        path = Path(directory) / "plan"
        path.write_bytes(planned.data)
        shown = Progress(options.progress_stream())
        times = saving.measure(
            replayer, path, modes, libraries, asked.samples, asked.seed,
            lambda done, total: shown.show(f"[{done} of {total} replays]"),
        )  # fmt: skip
    return saving.conclude(found, planned, ranked, edited, times)


def _checked(found, savings, command: list[str]) -> dict[str, float]:
    """Malloc -> processor seconds of a run of the program itself: as it is, and on what the report would name. Empty
    when it did something else than in the first run."""
    from poolprofile import report

    names = [name for name in dict.fromkeys((report.best_of(savings), mallocs.OURS)) if name in savings.of_malloc]
    if not report.best_of(savings):
        return {}
    libraries = {malloc.name: malloc.path for malloc in mallocs.find()[0]}
    if mallocs.OURS in names:
        libraries[mallocs.OURS] = str(native.pooled_new(options.say))
    runs = len(names) + 1
    options.say(
        f"running it again, as it is and on {' and '.join(names)}, to check the prediction: about "
        f"{runs * found.seconds:,.0f} s (--no-check leaves it out)"
    )
    took = {name: launch.processor_seconds(command, libraries[name]) for name in (mallocs.DEFAULT, *names)}
    if None in took.values() or took[mallocs.DEFAULT] < SAME_WORK * found.cpu_seconds:
        options.complain("the prediction is not checked: run again, with no input, the program did something else")
        return {}
    return took


def _origins(traces: list, kept: bool, again: bool) -> list[str]:
    """Of the recording; `again`: and of the replay, which is another measurement, perhaps on another machine."""
    first, rest = traces[0], len(traces) - 1
    name = f"{first.path.name}{f' and {rest} more' if rest else ''}" if kept else NOT_KEPT
    told = [(first.session, name)]
    if again:
        now = {"machine": hardware.describe(), "time": record.now(), "busy_share": hardware.busy_share()}
        told.append((now, "replayed"))
    return [options.origin(Results(first.path, [each] if each else [], finished=True), name) for each, name in told]


def _report(
    traces: list,
    asked: Replays | None,
    as_json: bool,
    kept: bool,
    again: bool = False,
    check: bool | None = False,
    command: list[str] | None = None,
) -> None:
    """`asked` None: nothing is replayed. `kept`: the traces are files of the user's; `again`: recorded earlier.
    `check`: run the command once more, None: if that does not take long."""
    from poolprofile import report

    found = _census(traces)
    if not found.objects:
        raise Failed(
            f"{found.program} allocated too little to be sampled ({found.seconds:.2f} s): there is nothing to pool; "
            "a longer run, or a larger input, shows more"
        )
    origins = _origins(found.traces, kept, again and asked is not None)
    busy = any("BUSY" in origin for origin in origins)
    savings, failed, checked = None, "", {}
    if asked:
        try:
            savings = _savings(found, asked)
            failed = "" if savings else "too few calls were recorded in the windows: run it longer for a prediction"
            short = found.seconds <= CHECKED_SECONDS
            if savings and command and not busy and (short if check is None else check):
                checked = _checked(found, savings, command)
        except Failed as error:
            failed = str(error)
    options.begin("\n".join(origins), as_json)
    if as_json:
        typer.echo(json.dumps({"origin": origins, **report.record(found, savings, checked, busy)}, indent=1))
    else:
        report.tell(found, savings, checked, busy)
    if failed:
        raise Failed(failed)


def _check_writable(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise Failed(f"--keep {directory}: it cannot be written: {error.strerror}") from error


def _keep(path: Path, directory: Path) -> bool:
    """What the program did is reported even if its trace finds no place."""
    with path.open("rb") as file:
        used = int.from_bytes(file.read(40)[32:40], "little")
    try:
        options.say(f"kept: {launch.keep(path, used, directory)}")
    except OSError as error:
        options.complain(f"not kept: {error.filename}: {error.strerror}")
        return False
    return True


def profile(
    command: CommandArgument,
    keep: option(Path | None, "Keep the traces here, for poolbench replay.", metavar="DIRECTORY") = None,
    most: option(
        int, "Maximum size of the trace of a process.", "--most-mebibytes", metavar="N", min=1, max=1 << 16
    ) = DEFAULT_MEBIBYTES,
    samples: SamplesOption = 7,
    top: TopOption = 6,
    only: OnlyOption = None,
    no_replay: NoReplayOption = False,
    check: option(
        bool | None,
        "Run the program again to check the prediction. Default: if it ended well within a minute.",
        "--check/--no-check",
    ) = None,
    seed: options.SeedOption = 1,
    as_json: options.JsonOption = False,
) -> None:
    """Record a program; say what pooling would save, and where.

    Runs any dynamically linked program with a small library preloaded. Then names the types that it creates, counts
    them, and replays what was recorded with malloc, with each installed malloc, and with each type in the pool.
    """
    from poolprofile import trace

    pattern = _pattern(only)
    launch.check(command[0])
    if keep:  # an error before the program runs, which may take hours
        _check_writable(keep)
    recorder = native.recorder(options.say)
    with launch.directory() as name:
        directory = Path(name)
        began, busy = record.now(), hardware.busy_share()
        if warning := hardware.busy_warning(busy):
            options.say(warning)
        status = launch.run(command, recorder, directory, most << 20, STANDARD_ERROR if as_json else None)
        traces = []
        for path in sorted(directory.glob("*.pooltrace")):
            trace.note(path, hardware.describe(), began, busy)
            try:
                traces.append(trace.read(path))
            except BadInput as error:
                options.complain(str(error))
        if not traces:
            raise Failed(
                f"{command[0]} left no trace (exit status {status}): it was linked statically, cleared LD_PRELOAD, "
                f"or could not write to {directory}"
            )
        if status:
            how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            options.say(f"{command[0]} {how}; what it did until then was recorded")
        kept = [_keep(each.path, keep) for each in traces] if keep else [False]
        asked = None if no_replay else Replays(samples, top, pattern, seed)
        _report(traces, asked, as_json, all(kept), check=check, command=None if status else command)
        if keep and not all(kept):
            raise typer.Exit(1)


def replay(
    traces: argument(list[Path], "A trace that --keep has kept.", metavar="TRACE"),
    samples: SamplesOption = 7,
    top: TopOption = 6,
    only: OnlyOption = None,
    no_replay: NoReplayOption = False,
    seed: options.SeedOption = 1,
    as_json: options.JsonOption = False,
) -> None:
    """Report recorded traces again, on this machine.

    They are replayed with its mallocs. Types are named by the program's file and debug information, if they are still
    where they were.
    """
    from poolprofile import trace

    asked = Replays(samples, top, _pattern(only), seed)
    found = [trace.read(path) for path in traces]
    _report(found, None if no_replay else asked, as_json, kept=True, again=True)


def add_to(app: typer.Typer, name: str = "profile") -> None:
    settings = {"allow_interspersed_args": False}
    usage = "[OPTIONS] --"
    app.command(name, epilog=EPILOG_PROFILE, context_settings=settings, options_metavar=usage)(profile)
    app.command(epilog=EPILOG_REPLAY)(replay)


def main() -> None:
    options.stop_on_signal()
    app = typer.Typer(cls=options.Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
    add_to(app, "run")
    app(prog_name="poolprofile")
