# SPDX-License-Identifier: BSL-1.0
"""Options that several commands have, and how a command speaks and fails."""

import errno
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
import typer.core

from poolbench.errors import Failed
from poolbench.results import find
from poolbench.results.read import Results, read_measured

BAD_COMMAND_LINE, INTERRUPTED = 2, 130  # exit status
MOST_SECONDS = 1e9  # of a duration; no timer of the system takes any number
quiet = False  # --quiet: of what goes to standard error, errors alone


def begin(origin: str, as_json: bool) -> None:
    """What figures are of; beside JSON on standard error."""
    say(origin) if as_json else typer.echo(origin + "\n")


def say(text: str) -> None:
    """To the user, on standard error; nothing that they could not do without."""
    if not quiet:
        typer.echo(f"poolbench: {text}", err=True)


def progress_stream() -> TextIO | None:
    """Where progress goes: nowhere when quiet."""
    return None if quiet else sys.stderr


def complain(text: str) -> None:
    """What went wrong, whether quiet or not."""
    typer.echo(f"poolbench: {text}", err=True)


class Commands(typer.core.TyperGroup):
    """A command that cannot go on ends with its reason and exit status."""

    def invoke(self, ctx: typer.Context):
        if sys.stdout is None:  # else the next file that is opened gets its number, and what programs print
            complain("standard output is closed: direct it to a file, or to /dev/null")
            raise typer.Exit(BAD_COMMAND_LINE)
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has seen enough: typer ends quietly
            raise
        except (Failed, OSError) as error:
            # Who writes a file says which one.
            is_of_stream = getattr(error, "errno", None) == errno.ENOSPC and error.filename is None
            complain(f"standard output cannot be written: {error.strerror}" if is_of_stream else str(error))
            raise typer.Exit(getattr(error, "status", 1)) from error
        except KeyboardInterrupt as stopped:
            say(str(stopped) or "interrupted")
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def when_interrupted(text: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(text) from None


def stop_on_signal() -> None:
    """SIGTERM ends a command as Ctrl-C does. A shell starts background jobs with Ctrl-C ignored; here it is not."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def seconds(text: str | float) -> float:
    """ "90", "90s", "10m", "2h"; more than nothing."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|m|min|h|)", str(text).strip())
    value = float(found[1]) * {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[found[2]] if found else 0.0
    if not 0 < value < MOST_SECONDS:
        raise typer.BadParameter(f"'{text}' is no duration; say 90, 90s, 10m or 2h")
    return value


def share(text: str | float) -> float:
    """ "5%" or "0.05"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(%|)", str(text).strip())
    if not found:
        raise typer.BadParameter(f"'{text}' is no share; say 5% or 0.05")
    return float(found[1]) / (100 if found[2] else 1)


def option(kind: Any, text: str, *names: str, **how) -> Any:
    """The annotation of a command's option; `text` is its help."""
    return Annotated[kind, typer.Option(*names, help=text, **how)]


def argument(kind: Any, text: str, **how) -> Any:
    return Annotated[kind, typer.Argument(help=text, **how)]


def _several(text: str, *names: str) -> Any:
    return option(list[str] | None, f"{text} For several, repeat the option or use commas.", *names, metavar="NAME")


WorkloadOption = _several('"e1" is enough.', "--workload", "-w")
VariantOption = _several("Only these.", "--variant")
ContenderOption = _several("Only these.", "--contender", "-c")
MallocOption = _several("Only on these.", "--malloc", "-m")
ToolchainOption = _several("Only with these.", "--toolchain", "-t")
BIN = "Use this pooled-bench (and pooled-bench-O0 beside it); build nothing."
BinOption = option(list[str] | None, BIN, "--bin", metavar="TOOLCHAIN=PATH")
SeedOption = option(int, "Seed for the order of the measurements.", metavar="N", min=0, max=2**31)
LeastOption = option(int, "Minimum number of process runs of each.", "--samples", metavar="N", min=2, max=1000)
PrecisionOption = option(float | None, "More runs until within ±SHARE.", "--precision", parser=share, metavar="SHARE")
TimeoutOption = option(float | None, "Limit of a process run: 60s.", "--timeout", parser=seconds, metavar="TIME")
BudgetOption = option(float | None, "Time for more runs: 90s, 10m, 2h.", "--budget", parser=seconds, metavar="TIME")
LiveOption = option(int, "Objects alive at the same time, in all threads.", metavar="N", min=1, max=1_000_000_000)
OutputOption = option(Path | None, "Write the results to this file.", "--output")
JsonOption = option(bool, "Print one JSON object instead of text.", "--json")
ResultsArgument = argument(Path | None, "A results file. Default: the newest of your runs.", metavar="RESULTS")


def pairs(words: list[str] | None, of: str) -> list[tuple[str, str]]:
    """NAME=VALUE, several times."""
    found = []
    for word in words or []:
        name, separator, value = word.partition("=")
        if not name or not separator or not value:
            raise typer.BadParameter(f"{of} takes NAME=PATH, not '{word}'")
        found.append((name, value))
    return found


def results_of(path: Path | None) -> Results:
    """The results a command is about."""
    results = read_measured(path or find.latest())
    if warning := results.warning():
        complain(warning)
    return results


def origin(results: Results, file: str = "") -> str:
    """File, machine, date, and whether the machine was busy: every output begins with it."""
    from poolbench.system import hardware

    return results.origin(hardware.describe(), file)


def colours() -> bool:
    """Whether escape sequences may be written: never into a pipe, whatever FORCE_COLOR says, nor under NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
