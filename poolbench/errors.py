# SPDX-License-Identifier: BSL-1.0
"""What ends a command. The command line tells the reason, and exits with the status (options.Commands)."""


class Failed(Exception):
    """Something could not be built, run or written."""

    status = 1


class BadInput(Failed):
    """The command line or a file is wrong; nothing was measured."""

    status = 2
