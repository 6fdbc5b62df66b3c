# SPDX-License-Identifier: BSL-1.0
"""Tests of the runner's arithmetic, and of what it does when a cell goes wrong."""
