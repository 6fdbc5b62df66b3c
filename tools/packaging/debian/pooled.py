# SPDX-License-Identifier: BSL-1.0
# gdb reads the files of /etc/gdb/gdbinit.d when it starts. The file stays when the package is removed and not purged.
import os

import gdb

PRINTERS = "/usr/share/pooled/pooled_gdb.py"
if os.path.exists(PRINTERS):
    gdb.execute("source " + PRINTERS)
