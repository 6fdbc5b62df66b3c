// SPDX-License-Identifier: BSL-1.0
#pragma once

// Boost.Pool's UserAllocator, the source of a pool's memory: a struct with static malloc and free, and two types. This header has
// the two that Boost defines.
//
// Throughout boost_pool/, `malloc` and `free` stand in parentheses where they are declared and where they are called: a
// program may define macros of these names.

#include "pooled/config.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat {

struct default_user_allocator_new_delete {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    static char*(malloc)(size_type bytes) { return new (std::nothrow) char[bytes]; }
    static void(free)(char* block) { delete[] block; }  // NOLINT: as malloc gave it
};

struct default_user_allocator_malloc_free {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    static char*(malloc)(size_type bytes) { return static_cast<char*>((std::malloc)(bytes)); }
    static void(free)(char* block) { (std::free)(block); }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat
