# SPDX-License-Identifier: BSL-1.0
"""What the samples say. `stats` is the door to SciPy, `estimate` makes a figure with an interval of each cell,
`compare` tells two files apart, `claims` judges the published claims and our own, `findings` puts it in words."""
