# SPDX-License-Identifier: BSL-1.0
"""What the samples say. `stats` wraps SciPy, `estimate` makes a figure with an interval of each cell, `rows`
and `headlines` arrange them for tables, `compare` tells two executables apart, `claims` judges the
published claims and our own, `advice` chooses a handle."""
