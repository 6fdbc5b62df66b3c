// SPDX-License-Identifier: BSL-1.0
// The library's fork handlers are registered before those of all libraries and of main.

#include "fork_waits.hpp"
