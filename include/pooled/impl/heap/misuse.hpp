// SPDX-License-Identifier: BSL-1.0
#pragma once

// The messages for misuse that the heap detects: bad deallocations, in every build (the checked build detects more, and earlier),
// and stray writes, in the checked build.

#include "pooled/config.hpp"

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

inline constexpr char const* k_no_large_block =
    "no large block in use starts there (double free, or another size)";

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

[[noreturn]] POOLED_NOINLINE inline void fail_deallocation(char const* pool_name, void const* p,
                                                           char const* what) noexcept {
    detail::fail_with(
        "pooled: bad deallocation of %p into pool '%s': %s; build with -DPOOLED_CHECKED=1 to have "
        "it reported at the offending call",
        p, pool_name, what);
}

// Reports a write to the byte `at` bytes after the start of the block of `bytes`. `when`: what is wrong, and what to do.
[[noreturn]] POOLED_NOINLINE inline void fail_write(char const* pool_name, void const* block,
                                                    std::size_t bytes, std::size_t at,
                                                    char const* when) noexcept {
    detail::fail_with(
        "pooled: bad write to the block of %zu bytes at %p of pool '%s': the byte at offset %zu was "
        "written %s",
        bytes, block, pool_name, at, when);
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
