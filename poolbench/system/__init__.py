# SPDX-License-Identifier: BSL-1.0
"""This machine: `hardware` and `counters` (what it is), `mallocs` and `toolchains` (what it has), `build`."""
