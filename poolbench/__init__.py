# SPDX-License-Identifier: BSL-1.0
"""The driver of pooled's benchmark. Packages, lowest first; each says in its __init__ what is in it:

errors     what ends a command, with its exit status
plan       what to measure: workloads/*.toml and the executables make the matrix of cells
results    the JSON lines that a run appends to, and reading them back
system     this machine: processor, mallocs, toolchains, builds, processes
analysis   estimates with intervals, comparison, claims
measure    a run: one process a sample, interleaved, until the intervals are narrow
report     the page and the picture
commands   one command a module, on `options` and `tables`; `cli` puts them together

Above it lies poolprofile, a package of its own.
"""
