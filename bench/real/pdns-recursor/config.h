// SPDX-License-Identifier: BSL-1.0
// What the package's configure script finds out on Linux, as far as the parsing of packets needs it.
#pragma once
#define STRERROR_R_CHAR_P 1
