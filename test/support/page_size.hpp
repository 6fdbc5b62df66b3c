// SPDX-License-Identifier: BSL-1.0
#pragma once

// A system with larger pages than the machine has, for programs of their own: the calls of the library to the system behave as
// those of a kernel with pages of page_size::bytes() do. Addresses that are no multiple of it are refused, and lengths rounded up
// to it: returned memory is lost up to the end of its last page.
//
// POOLED_TEST_PAGE_BYTES says how large they are: 64 KiB if it is not set.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace test::page_size {

[[nodiscard]] inline std::size_t bytes() noexcept {
    static std::size_t const chosen = [] {
        char const* const asked = std::getenv("POOLED_TEST_PAGE_BYTES");
        return asked != nullptr ? std::strtoull(asked, nullptr, 10) : std::size_t{65536};
    }();
    return chosen;
}
[[nodiscard]] inline std::size_t rounded_up(std::size_t length) noexcept {
    return (length + bytes() - 1) / bytes() * bytes();
}

// Calls with an address that is not of a page's start.
inline std::atomic<std::size_t> g_refused{0};

[[nodiscard]] inline bool is_refused(void const* address) noexcept {
    if (reinterpret_cast<std::uintptr_t>(address) % bytes() == 0) return false;
    ++g_refused;
    errno = EINVAL;
    return true;
}

}  // namespace test::page_size

extern "C" {

// NOLINTBEGIN: declared by the system's headers
long sysconf(int name) noexcept {
    if (name == _SC_PAGESIZE) return static_cast<long>(test::page_size::bytes());
    if (name == _SC_NPROCESSORS_ONLN) return 2;
    return -1;
}

void* mmap(void* hint, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
    std::size_t const page = test::page_size::bytes();
    std::size_t const wanted = test::page_size::rounded_up(length);
    if (wanted < length || wanted + page < wanted) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    long const at = ::syscall(SYS_mmap, hint, wanted + page, protection, flags, file, offset);
    if (at == -1) return MAP_FAILED;
    auto const first = static_cast<std::uintptr_t>(at);
    std::uintptr_t const aligned = (first + page - 1) / page * page;
    if (aligned != first) ::syscall(SYS_munmap, first, aligned - first);
    ::syscall(SYS_munmap, aligned + wanted, first + page - aligned);
    return reinterpret_cast<void*>(aligned);
}

int munmap(void* address, std::size_t length) noexcept {
    if (test::page_size::is_refused(address)) return -1;
    return static_cast<int>(::syscall(SYS_munmap, address, test::page_size::rounded_up(length)));
}

int madvise(void* address, std::size_t length, int advice) noexcept {
    if (test::page_size::is_refused(address)) return -1;
    return static_cast<int>(::syscall(SYS_madvise, address, test::page_size::rounded_up(length), advice));
}
// NOLINTEND
}
