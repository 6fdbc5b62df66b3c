// SPDX-License-Identifier: BSL-1.0
#pragma once

// The order in which the hardened build takes free blocks from one word of a slab's bitmap. Of each eight neighbours, the one at
// place n comes as number n ^ flip, with another flip for each eight, word, and process:
//
//   word    | eight | eight | … |        flip 5:  5 4 7 6 1 0 3 2
//
// Not over more than eight, because longer jumps keep the processor from prefetching: E2 took 1.4 times as long. It does not
// expect even these jumps on Zen 4, so the blocks that come next are prefetched (docs/mechanisms.md).
//
// Invariant: take() passes on each bit of free() at most once, and clears it.
// Guarded by the slab's lock. O(blocks taken). Included in the hardened build only.

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/impl/instrument/free_mark.hpp"
#include "pooled/impl/os/random.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class shuffled_word {
public:
    // `first`: the block of the lowest bit; `free`: the word.
    shuffled_word(void const* slab, std::byte* first, std::size_t block_bytes, std::uint64_t free) noexcept
        : m_random(platform::scatter(free_mark::g_order ^ address_of(slab) ^ free)),
          m_first(first),
          m_block_bytes(block_bytes),
          m_free(free) {}

    // The blocks that are not taken.
    [[nodiscard]] std::uint64_t free() const noexcept { return m_free; }
    // `group`: the first bit of eight.
    [[nodiscard]] std::size_t flip(unsigned group) const noexcept { return m_random >> group & 7; }

    // Takes at most `wanted` blocks and passes their addresses to `visit`. Returns how many remain to be taken.
    template <class Visit>
    std::uint32_t take(std::uint32_t wanted, Visit&& visit) noexcept {
        while (m_free != 0 && wanted != 0) {
            unsigned const group = static_cast<unsigned>(std::countr_zero(m_free)) & ~(k_group - 1);
            std::uint64_t const all = std::uint64_t{0xff} << group;
            if ((m_free & all) == all && wanted >= k_group) [[likely]] {
                visit_all(group, visit);
                m_free &= ~all;
                wanted -= k_group;
            } else
                wanted = take_some(group, wanted, visit);
        }
        return wanted;
    }

private:
    static constexpr unsigned k_group = 8;

    // The blocks n ^ flip for n from 0 to 7, without a multiplication for each.
    template <class Visit>
    POOLED_ALWAYS_INLINE void visit_all(unsigned group, Visit&& visit) const noexcept {
        std::size_t const by = flip(group);
        auto const step = static_cast<std::ptrdiff_t>(m_block_bytes);
        std::ptrdiff_t const one = (by & 1) != 0 ? -step : step;
        std::ptrdiff_t const two = (by & 2) != 0 ? -2 * step : 2 * step;
        std::ptrdiff_t const four = (by & 4) != 0 ? -4 * step : 4 * step;
        std::byte* const at = m_first + (group + by) * m_block_bytes;
        for (std::byte* const pair : {at, at + two, at + four, at + four + two}) {
            visit(pair);
            visit(pair + one);
        }
    }

    template <class Visit>
    std::uint32_t take_some(unsigned group, std::uint32_t wanted, Visit&& visit) noexcept {
        for (std::size_t n = 0; n < k_group && wanted != 0; ++n) {
            std::size_t const nth = group + (n ^ flip(group));
            std::uint64_t const bit = std::uint64_t{1} << nth;
            if ((m_free & bit) == 0) continue;
            visit(m_first + nth * m_block_bytes);
            m_free &= ~bit;
            --wanted;
        }
        return wanted;
    }

    std::uint64_t m_random;
    std::byte* m_first;
    std::size_t m_block_bytes;
    std::uint64_t m_free;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
