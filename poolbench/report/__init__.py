# SPDX-License-Identifier: BSL-1.0
"""The page and the picture. `theme` has colours and fonts, `marks` what every chart is drawn with. Vega-Lite of
estimates is made by `charts` for a workload, by `overview` for a results file. `drawn`
turns that into what a page holds, `findings` says in words what was found, `page` puts all of it into one file."""
