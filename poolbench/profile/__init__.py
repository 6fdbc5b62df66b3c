# SPDX-License-Identifier: BSL-1.0
"""A user's own program: recording it, reading the traces, naming types, counting, and replaying."""
