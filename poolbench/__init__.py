# SPDX-License-Identifier: BSL-1.0
"""The driver of pooled's benchmark.

Lowest first: `stats` (medians and ratios), `machine` (what is installed here), `plan` (which cells to
measure), `runner` (measures them, one process each), `figures` (what must be met), `report` (tables),
`cli` (the commands).
"""
