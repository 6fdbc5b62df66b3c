// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the environment says about a program that runs already:
//
//   POOLED_HUGE_PAGES=0    no pool asks for huge pages
//   POOLED_HUGE_PAGES=1    those pools do whose options say so, as without the variable
//
// Read once, when the first pool is made, and not in a program that has more rights than its user. Any thread may call, also before
// main; nothing is allocated.

#include "pooled/config.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// 1: allowed; -1: not; 0: not read yet. Not a guarded static: a fork may happen at any moment.
POOLED_STATE(std::atomic<int>, g_allows_huge_pages, {0});

// Null in a program that has more rights than its user: set-user-ID, set-group-ID and, with glibc, file capabilities.
[[nodiscard]] inline char const* trusted_variable(char const* name) noexcept {
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    return ::secure_getenv(name);
#else
    return ::getuid() == ::geteuid() && ::getgid() == ::getegid() ? std::getenv(name) : nullptr;
#endif
}

[[nodiscard]] inline bool allows_huge_pages() noexcept {
    int allows = g_allows_huge_pages.load(std::memory_order_relaxed);
    if (allows != 0) return allows == 1;
    constexpr char const* k_name = "POOLED_HUGE_PAGES";
    char const* const value = detail::trusted_variable(k_name);
    bool const is_digit = value != nullptr && (value[0] == '0' || value[0] == '1') && value[1] == '\0';
    allows = is_digit && value[0] == '0' ? -1 : 1;
    int unread = 0;
    bool const is_first =
        g_allows_huge_pages.compare_exchange_strong(unread, allows, std::memory_order_relaxed);
    if (is_first && value != nullptr && !is_digit)
        std::fprintf(
            stderr,
            "pooled: the environment variable %s is \"%.32s\" and is ignored; 0 turns huge pages off, 1 is "
            "the default\n",
            k_name, value);
    return allows == 1;
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
