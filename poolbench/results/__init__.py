# SPDX-License-Identifier: BSL-1.0
"""Results files: JSON lines that are only ever appended to. `record` makes the lines, `read` reads a file that may have
been cut off anywhere, `store` appends under a lock, `find` knows which file is meant when none is named."""
