# SPDX-License-Identifier: BSL-1.0
"""`python -m poolbench`."""

from poolbench.cli import main

main()
