# SPDX-License-Identifier: BSL-1.0
"""`python -m poolbench`."""

from poolbench.cli import app

app(prog_name="poolbench")
