// SPDX-License-Identifier: BSL-1.0
#pragma once

// Makes allocations of the library's own structures fail, for what must work without. This cannot be undone, and malloc may
// fail from then on: use it only in a death test's child. A sanitizer needs memory of its own: skip the test then.

#include "pooled/os/metadata.hpp"

#include <cstddef>
#include <cstdlib>

#if !defined(_WIN32)
#include <sys/mman.h>
#include <sys/resource.h>
#endif

namespace test {

#if defined(_WIN32)
[[nodiscard]] inline bool can_end_metadata() { return false; }
inline void end_metadata() {}
#else

// Whether a limit of the address space holds: under qemu's user mode with pages of another size than the machine's it does not, and
// end_metadata() would take all memory of the machine.
[[nodiscard]] inline bool can_end_metadata() {
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    rlimit none = before;
    none.rlim_cur = 0;
    constexpr std::size_t k_bytes = std::size_t{1} << 24;
    if (setrlimit(RLIMIT_AS, &none) != 0) return false;
    void* const p = mmap(nullptr, k_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    setrlimit(RLIMIT_AS, &before);
    if (p != MAP_FAILED) munmap(p, k_bytes);
    return p == MAP_FAILED;
}

// The library gets no more memory for its own structures from here on.
inline void end_metadata() {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 0;
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(14);
    for (std::size_t bytes = 8192; bytes >= 64; bytes /= 2)
        while (pooled::detail::g_metadata.try_allocate(bytes) != nullptr) {}
}
#endif

}  // namespace test
