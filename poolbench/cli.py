# SPDX-License-Identifier: BSL-1.0
"""The commands, put together. Each is a module of `commands` and does its heavy imports when it runs.

Exit status: 0 done; 1 something was measured and is not well (a cell failed, a regression, a promise of ours that does
not hold); 2 the command line or a file is wrong; 3 compare: cells are undecided; 130 interrupted.
"""

import importlib
import importlib.util
from importlib import metadata

import typer

from poolbench import options
from poolbench.commands import claims, compare, doctor, real, report, run, table, try_own
from poolbench.options import option

EPILOG = """\b
Examples:
  poolbench doctor                     what there is to measure with, and what is missing
  poolbench run --profile quick        measure everything: 10 minutes and the build
  poolbench report --open              the newest results as a page
  poolbench compare --bin ../main --bin . -w create_drop
  poolbench try my_type.hpp --type my::Packet --args '1500'
  poolbench profile -- ./program           would pooling help it, and where?
"""

app = typer.Typer(
    cls=options.Commands,
    no_args_is_help=True,
    # Plain text: boxes and colours would follow FORCE_COLOR into pipes.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EPILOG,
    help="Measures what pooling gains on this machine: runs the benchmark, judges it, and draws the report.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"poolbench {metadata.version('poolbench')}")
        raise typer.Exit


@app.callback()
def every_command(
    version: option(bool, "Print the version.", "--version", callback=_version, is_eager=True) = False,
    quiet: option(bool, "Only errors go to standard error.", "--quiet", "-q") = False,
) -> None:
    options.quiet = quiet


for module in (doctor, run, report, table, compare, claims, real, try_own):
    name = module.__name__.rpartition(".")[2]
    app.command(name.removesuffix("_own"), epilog=module.EPILOG)(getattr(module, name))  # `try` is a word of Python's
if importlib.util.find_spec("poolprofile"):  # a package of its own
    importlib.import_module("poolprofile.cli").add_to(app)


def main() -> None:
    options.stop_on_signal()
    app(prog_name="poolbench")
