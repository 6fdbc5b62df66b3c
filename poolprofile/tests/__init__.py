# SPDX-License-Identifier: BSL-1.0
"""Tests of poolprofile."""
