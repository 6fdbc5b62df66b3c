# SPDX-License-Identifier: BSL-1.0
from poolbench.tests.conftest import a_quiet_machine_with_glibc_alone  # noqa: F401
