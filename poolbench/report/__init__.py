# SPDX-License-Identifier: BSL-1.0
"""The page and the picture. `theme` has colours and fonts, `charts` makes Vega-Lite of estimates, `drawn` turns that
into what a page holds, `findings` says in words what was found, `page` puts all of it into one file."""
