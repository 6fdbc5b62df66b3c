// SPDX-License-Identifier: BSL-1.0
#pragma once

// The descriptor of a large block, and the bucket sizes for freed ones.
// Guarded by the lock of the heap of large blocks.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/fill.hpp"
#include "pooled/heap/free_mark.hpp"
#include "pooled/heap/page_map.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct large_reservation;

// Computes the offset of the next large block in its region. With equal offsets, the first bytes of all blocks would map to the
// same few cache sets. Any thread may call.
class offset_sequence {
public:
    static constexpr std::size_t k_offsets = 64;
    static constexpr std::size_t k_bytes = k_offsets * k_cache_line;

    // An odd step visits all offsets, with successive ones far apart. `slack`: spare bytes in the region.
    [[nodiscard]] std::uint16_t next(std::size_t align, std::size_t slack) noexcept {
        std::size_t const offsets = detail::min(k_offsets, slack / k_cache_line + 1);
        std::uint32_t const n = m_regions.fetch_add(1, std::memory_order_relaxed);
        std::size_t const offset = std::size_t{n} * 13 % offsets * k_cache_line;
        return static_cast<std::uint16_t>(round_down(offset, detail::max(align, k_cache_line)));
    }

private:
    std::atomic<std::uint32_t> m_regions{0};  // number ever made
};

struct alignas(k_cache_line) large_block {
    std::byte* base = nullptr;  // start of the region from upstream
    std::size_t total = 0;
    std::size_t align = 0;
    void* payload = nullptr;  // null while it is idle
    std::size_t bytes = 0;    // requested bytes
    map_entry outer;          // the page map's former entry, since upstream may be a pool
    large_block* next = nullptr;
    std::uint32_t idle_since = 0;  // in periods of release_unused()
    std::uint16_t offset = 0;
    large_reservation* reserved_for = nullptr;
    std::uint64_t number = 0;  // value of next_region() when the region came from upstream

#if POOLED_CHECKED
    std::byte* filled = nullptr;  // since it was freed; null: it is not
    std::size_t filled_bytes = 0;

    // Called before the memory is used again, or returns to upstream.
    void end_free(char const* pool_name) noexcept {
        if (filled != nullptr) fill::verify_free(pool_name, filled, filled_bytes);
        filled = nullptr;
    }
#else
    static void end_free(char const*) noexcept {}
#endif

    // It is idle from now on, unless it was. In the hardened build, its mark detects the second drop of what was in it.
    void end_use() noexcept {
        if constexpr (k_hardened)
            if (payload != nullptr && bytes >= sizeof(std::uintptr_t)) free_mark::put_on(payload);
        payload = nullptr;
    }

    // The start of `size` bytes at `alignment`, or null when they do not fit. 0 bytes also get an address within the region.
    [[nodiscard]] void* place(std::size_t size, std::size_t alignment) const noexcept {
        for (std::size_t const from : {std::size_t{offset}, std::size_t{0}}) {
            std::size_t const skip = round_up(address_of(base) + from, alignment) - address_of(base);
            if (skip < total && size <= total - skip) return base + skip;
        }
        return nullptr;
    }
};

// Takes one that holds `bytes` at `align` out of a list of idle blocks, or null. Looks at the first few only, since the others
// are about as large: O(1).
[[nodiscard]] inline large_block* take_fitting(large_block*& list, std::size_t bytes,
                                               std::size_t align) noexcept {
    int left = 4;
    for (large_block** link = &list; *link != nullptr && left != 0; link = &(*link)->next, --left)
        if (large_block* const b = *link; b->place(bytes, align) != nullptr) {
            *link = b->next;
            return b;
        }
    return nullptr;
}

// Eight sizes to the doubling, from a granule to 1 GiB.
struct large_buckets {
    static constexpr std::size_t k_steps = 8;
    static constexpr unsigned k_least_log = 14;
    static constexpr unsigned k_most_log = 30;
    static constexpr std::size_t k_largest = std::size_t{1} << k_most_log;
    static constexpr std::size_t k_count = (k_most_log - k_least_log) * k_steps + 1;
    static_assert(std::size_t{1} << k_least_log == k_granule_bytes);

    [[nodiscard]] static constexpr std::size_t bytes(std::size_t index) noexcept {
        return (k_steps + index % k_steps) << (index / k_steps + k_least_log - 3);
    }
    // The bucket of the largest size <= `total`; the last bucket for anything larger.
    [[nodiscard]] static constexpr std::size_t at_most(std::size_t total) noexcept {
        if (total < k_granule_bytes) return 0;
        auto const log = static_cast<unsigned>(std::bit_width(total) - 1);
        if (log >= k_most_log) return k_count - 1;
        return (log - k_least_log) * k_steps + ((total >> (log - 3)) & (k_steps - 1));
    }
    // The bucket of the smallest size >= `total`; k_count when there is none.
    [[nodiscard]] static constexpr std::size_t at_least(std::size_t total) noexcept {
        if (total > k_largest) return k_count;
        std::size_t const down = at_most(total);
        return bytes(down) < total ? down + 1 : down;
    }
};
static_assert(large_buckets::bytes(large_buckets::k_count - 1) == large_buckets::k_largest);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
