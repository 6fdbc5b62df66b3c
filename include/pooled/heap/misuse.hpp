// SPDX-License-Identifier: BSL-1.0
#pragma once

// The messages for misuse, and for bad deallocations those that every build has (the checked build detects more, and earlier).

#include "pooled/heap/page_map.hpp"

#include <cstdarg>

POOLED_BEGIN_DETAIL

inline constexpr char const* k_no_large_block =
    "no large block in use starts there (double free, or another size)";
inline constexpr char const* k_of_no_pool = "the address is of no pool; free it where it was allocated";
inline constexpr char const* k_of_another_pool = "it belongs to another pool; free it there";
inline constexpr char const* k_freed_before = "it was freed before (double free)";
inline constexpr char const* k_not_in_use =
    "it is no block in use of this size (double free, or another size)";
inline constexpr char const* k_of_another_size =
    "the size or alignment is not the one it was allocated with; free it with that";

// The registry, which knows the pools' names, sets it before the first pool is made.
using pool_names = char const* (*)(std::uint32_t pool_id) noexcept;
POOLED_STATE(pool_names, g_pool_names, = nullptr);

[[nodiscard]] inline char const* name_of_pool(std::uint32_t id) noexcept {
    return g_pool_names != nullptr ? g_pool_names(id) : "?";
}
// The name of the pool that has the memory there.
[[nodiscard]] inline char const* name_of_pool_at(void const* p) noexcept {
    return detail::name_of_pool(g_page_map.find(p).pool_id());
}

// Fails with a message in the format of printf, which may have 400 characters.
[[noreturn]] POOLED_PRINTF POOLED_NOINLINE inline void fail_with(char const* format, ...) noexcept(false) {
    std::array<char, 400> message{};
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message.data(), message.size(), format, arguments);
    va_end(arguments);
    POOLED_FAIL(message.data());
    std::abort();
}

// `freed_as` and `is` are sizes in bytes; 0: not known, or none.
[[noreturn]] POOLED_NOINLINE inline void fail_deallocation(char const* pool_name, void const* p,
                                                           char const* what, std::size_t freed_as = 0,
                                                           std::size_t is = 0) noexcept(false) {
    std::array<char, 96> more{};
    if constexpr (POOLED_CHECKED == 0)
        std::snprintf(more.data(), more.size(), "; build with -DPOOLED_CHECKED=1 %s",
                      POOLED_HARDENED != 0 ? "for more" : "to have it reported at the offending call");
    else if (freed_as != 0 && is != 0)
        std::snprintf(more.data(), more.size(), " (freed as a block of %zu bytes, is one of %zu)", freed_as,
                      is);
    else if (freed_as != 0 || is != 0)
        std::snprintf(more.data(), more.size(), " (%s a block of %zu bytes)",
                      freed_as != 0 ? "freed as" : "in", freed_as + is);
    detail::fail_with("pooled: bad deallocation of %p into pool '%s': %s%s", p, pool_name, what, more.data());
}

POOLED_END_DETAIL
