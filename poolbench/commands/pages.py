# SPDX-License-Identifier: BSL-1.0
"""What the commands that draw a page have in common."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from pathlib import Path

import typer

from poolbench.options import fail, say
from poolbench.results import find
from poolbench.results.read import BadResults, Results, read_measured


def measured_here() -> Iterator[Results]:
    """Your runs, the newest first. A file that is no results is named and left out, as are smoke runs."""
    for path in find.newest_first(find.DIRECTORY):
        if path.stem.endswith("-smoke"):
            continue
        try:
            yield read_measured(path)
        except BadResults as error:
            say(f"left out: {error}")


def show_in_browser(path: Path) -> None:
    if not webbrowser.open(path.resolve().as_uri()):
        say("no browser could be opened")


def deliver(path: Path, html: str, show: bool) -> None:
    """Writes the page and prints its path."""
    from poolbench.report import page

    try:
        page.write(path, html)
    except page.CannotWrite as error:
        raise fail(str(error), 1) from error
    typer.echo(str(path))
    if show:
        show_in_browser(path)
