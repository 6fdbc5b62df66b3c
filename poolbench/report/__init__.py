# SPDX-License-Identifier: BSL-1.0
"""The page and the picture."""
