# SPDX-License-Identifier: BSL-1.0
"""Measuring. `sample` makes one sample of a cell, `stopping` says which cells need more of them, `progress` tells the
user, `run_plan` is a run as one value, and carries it out."""
