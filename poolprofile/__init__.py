# SPDX-License-Identifier: BSL-1.0
"""Would pooling help a program, and where? Recording it, reading the traces, naming types, counting, and replaying."""
