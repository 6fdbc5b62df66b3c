// SPDX-License-Identifier: BSL-1.0
#pragma once

// What the instruments see of each block: the one place that names them. The core calls given() and taken(). Unless the hardened build is
// on, which is made for production, threads of a build with an instrument have no cache that the inlined code finds, so the core serves every call.
//
//   checked         impl/instrument/checked.hpp          each block in use: a bit, guard bytes behind it, filled when it is free
//   tracked         impl/instrument/tracked.hpp        each block in use: a record
//   malloc-backed   impl/instrument/malloc_backed.hpp   the caller has a block of malloc's
//   hardened        impl/instrument/hardened.hpp        each free block: a mark
//
// A block of another copy of the library's state is seen there. Any thread may call.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/instrument/checked.hpp"
#include "pooled/impl/instrument/hardened.hpp"
#include "pooled/impl/instrument/malloc_backed.hpp"
#include "pooled/impl/instrument/tracked.hpp"

#include <cstddef>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail::instrument {

// What the caller gets for a request of class `c`, perhaps k_large, that the block serves. Null if that is null, or if a tool has no
// memory; the block is then unchanged.
[[nodiscard]] inline void* given([[maybe_unused]] pool_core& core, [[maybe_unused]] class_index c,
                                 void* block, [[maybe_unused]] std::size_t bytes,
                                 [[maybe_unused]] std::size_t align) {
    if (block == nullptr) return nullptr;
    if constexpr (k_hardened) hardened::on_allocate(c, block);
    void* const given = malloc_blocks::give(core, block, bytes, align);
    if (given == nullptr) return nullptr;
    checks::on_allocate(core, block, bytes);
    tracking::on_allocate(core.id(), block, bytes);
    return given;
}

// The block for an address that a caller returns. Reports one that was not given to it, in this way. `bytes`: 0 if not known.
[[nodiscard]] inline void* taken(pool_core& core, class_index c, void* p, std::size_t bytes) noexcept {
    void* const block = malloc_blocks::take(core, c, p, bytes);
    checks::on_deallocate(core, c, block, bytes);
    if constexpr (k_hardened) hardened::on_deallocate(core.id(), c, block);
    tracking::on_deallocate(block);
    return block;
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail::instrument
