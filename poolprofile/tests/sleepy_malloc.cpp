// SPDX-License-Identifier: BSL-1.0
// A malloc that waits when it is asked for 4242 bytes: preloaded by a test of `poolbench profile`.
#include <stddef.h>

#include <dlfcn.h>
#include <unistd.h>
extern "C" void* malloc(size_t size) {
    static auto* const next = reinterpret_cast<void* (*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));
    if (size == 4242) usleep(200);
    return next(size);
}
