// SPDX-License-Identifier: BSL-1.0
// The library's fork handlers are registered at its first use, as in a plugin that a program loads: handlers of the program run while the
// library keeps all other threads out.
#define POOLED_STARTS_FIRST 0

#include "fork_waits.hpp"
