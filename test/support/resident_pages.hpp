// SPDX-License-Identifier: BSL-1.0
#pragma once

// How many pages of 4 KiB, or bytes of the process, are in memory, as the system says. qemu's user mode reports success for any madvise(), and
// counts the pages of the machine that it runs on.

#include "pooled/os/platform.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace test {

// Of the whole process. Not from statm: that counts pages, of another size than the program's under emulation. 0 where there
// is no such file.
[[nodiscard]] inline std::size_t resident_bytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    std::size_t kib = 0;
    while (status >> word)
        if (word == "VmRSS:") status >> kib;
    return kib << 10;
}

#if defined(_WIN32)
[[nodiscard]] inline std::size_t resident_pages(void const*, std::size_t) { return 0; }
[[nodiscard]] inline bool can_count_resident_pages() { return false; }
#else
// Requires `p` at the beginning of a page, and can_count_resident_pages().
[[nodiscard]] inline std::size_t resident_pages(void const* p, std::size_t bytes) {
    std::vector<unsigned char> state(bytes / pooled::detail::platform::k_page_bytes);
    if (::mincore(const_cast<void*>(p), bytes, state.data()) != 0) return ~std::size_t{0};
    return static_cast<std::size_t>(
        std::ranges::count_if(state, [](unsigned char one) { return (one & 1) != 0; }));
}

// The system's pages are of 4 KiB, and those that it reports as resident are.
[[nodiscard]] inline bool can_count_resident_pages() {
    constexpr std::size_t page = pooled::detail::platform::k_page_bytes;
    if (::sysconf(_SC_PAGESIZE) != static_cast<long>(page)) return false;
    void* const p = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    bool is_done = false;
#ifdef MADV_POPULATE_WRITE
    is_done = ::madvise(p, page, MADV_POPULATE_WRITE) == 0;
#endif
    if (!is_done) *static_cast<std::byte volatile*>(p) = std::byte{1};
    bool const can = test::resident_pages(p, page) == 1;
    ::munmap(p, page);
    return can;
}
#endif

}  // namespace test
