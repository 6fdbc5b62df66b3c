// SPDX-License-Identifier: BSL-1.0
// A kernel before Linux 6.17, to which the block is two mappings: mremap() unmaps the destination, and fails. realloc() must have the bytes in
// the new block even so.

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace {
int g_refused = 0;
}

// In place of libc's, for the library, too.
extern "C" long syscall(long number, ...) noexcept {
    std::va_list list;
    va_start(list, number);
    long a[6];
    for (long& each : a)
        each = va_arg(list, long);
    va_end(list);
    if (number == SYS_mremap) {
        ++g_refused;
        munmap(reinterpret_cast<void*>(a[4]), static_cast<std::size_t>(a[2]));
        errno = EFAULT;
        return -1;
    }
    static auto* const next = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int main() {
    std::size_t bytes = (std::size_t{17} << 20) + 5;
    auto* p = static_cast<unsigned char*>(std::malloc(bytes));
    std::memset(p, 'x', bytes);
    for (int i = 0; i < 4; ++i) {
        std::size_t const more = bytes + bytes / 2;
        p = static_cast<unsigned char*>(std::realloc(p, more));
        for (std::size_t at = 0; at < bytes; ++at)
            if (p[at] != 'x') return std::fprintf(stderr, "another byte at %zu of %zu\n", at, bytes), 1;
        std::memset(p, 'x', bytes = more);
    }
    std::free(p);
    if (g_refused == 0) return std::fprintf(stderr, "no pages were to be moved\n"), 1;
}
