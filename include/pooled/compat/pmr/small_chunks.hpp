// SPDX-License-Identifier: BSL-1.0
#pragma once

// Blocks of the size classes in chunks of a few blocks, where a pool's slabs of 64 KiB are too large: an upstream that has less,
// such as a buffer on the stack, or pool_options::max_blocks_per_chunk below the blocks of a slab.
//
// Free blocks are linked through their first word. Chunks are pieces of upstream_memory and return with its release().
// Requires a lock, or one thread. O(1), besides what upstream takes; the first use of a chunk: O(its blocks).

#include "pooled/compat/pmr/upstream_memory.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/size_class.hpp"

#include <array>
#include <cstddef>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail {

class small_chunks {
public:
    using class_index = pooled::detail::class_index;

    // A free block of class `c`, or null.
    [[nodiscard]] void* pop(class_index c) noexcept {
        free_block* const first = m_lists[c].first;
        if (first != nullptr) m_lists[c].first = first->next;
        return first;
    }

    // Requires a block of this class.
    void push(class_index c, void* p) noexcept { m_lists[c].first = ::new (p) free_block{m_lists[c].first}; }

    // A block of a new chunk of at most `most` blocks: each chunk of a class has twice as many as the one before, and fewer
    // when upstream refuses. Throws what upstream throws when asked for a single block.
    [[nodiscard]] void* grow(class_index c, std::size_t most, upstream_memory& from) {
        std::size_t const block_bytes = pooled::detail::k_geometry[c].block_bytes;
        list& mine = m_lists[c];
        std::size_t count = pooled::detail::clamp<std::size_t>(
            mine.last_count != 0 ? 2 * mine.last_count : k_first_bytes / block_bytes, 1,
            pooled::detail::smaller(most, pooled::detail::k_slab_bytes / block_bytes));
        std::byte* const base = allocate(c, count, from);
        mine.last_count = count;
        for (std::size_t i = count; i-- > 1;)
            push(c, base + i * block_bytes);
        return base;
    }

    // The chunks are gone, or about to go.
    void forget() noexcept { m_lists.fill({}); }

private:
    static constexpr std::size_t k_first_bytes = 1024;

    struct free_block {
        free_block* next;
    };
    struct list {
        free_block* first = nullptr;
        std::size_t last_count = 0;  // blocks of the chunk made last
    };

    // `count` becomes what upstream has memory for.
    [[nodiscard]] static std::byte* allocate(class_index c, std::size_t& count, upstream_memory& from) {
        pooled::detail::class_geometry const& g = pooled::detail::k_geometry[c];
        for (;; count /= 2) {
            POOLED_TRY {
                return static_cast<std::byte*>(from.allocate_piece(count * g.block_bytes, g.align));
            }
            POOLED_CATCH(std::bad_alloc const&) {
                if (count == 1) POOLED_RETHROW;
            }
        }
    }

    std::array<list, pooled::detail::k_class_count> m_lists{};
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
