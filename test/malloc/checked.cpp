// SPDX-License-Identifier: BSL-1.0
// libpooled-malloc.so as the checked build has it.
#define POOLED_CHECKED 1
#define POOLED_PRELOADED 1
#define POOLED_INITIAL_EXEC 1
#include "../../src/malloc.cpp"
