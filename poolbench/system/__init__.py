# SPDX-License-Identifier: BSL-1.0
"""This machine: `hardware` (what it is), `mallocs` and `toolchains` (what it has), `process` (a command
run to its end or its limit), `build`."""
