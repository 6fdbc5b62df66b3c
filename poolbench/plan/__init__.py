# SPDX-License-Identifier: BSL-1.0
"""What to measure. `description` reads workloads/*.toml, `program` asks an executable what it can do, `cell` is one
thing to measure, `matrix` joins the three, `selection` is what the user wants of it."""
