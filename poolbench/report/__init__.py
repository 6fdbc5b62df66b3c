# SPDX-License-Identifier: BSL-1.0
"""The page and the picture. `chart` draws, `findings` says in words what was found, `page` puts it into one file."""
