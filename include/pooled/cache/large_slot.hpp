// SPDX-License-Identifier: BSL-1.0
#pragma once

// The large block that a thread freed last. The thread's next request for the same number of bytes takes it without a lock: a
// buffer that is created and dropped in a loop, or a queue of them, needs nothing else.
//
// The heap of large blocks counts the block as in use, with the bytes of its last request; therefore only a request for exactly as
// many takes it. A block that is reserved, or larger than 16 MiB, is not kept here: other threads may need it.
//
// Invariant: a block kept here has no payload (the slot has its address) and is marked idle in the page map.
// Changed by the owner inside its gate, or by a thread that has stopped the owner. Counts may be read at any time. O(1).

#include "pooled/base/atomics.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/large_block.hpp"

#include <cstddef>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class large_slot {
public:
    static constexpr std::size_t k_most_bytes = std::size_t{16} << 20;

    // The block, if its last request was for as many bytes, and its payload has the alignment; else null.
    [[nodiscard]] POOLED_ALWAYS_INLINE large_block* take(std::size_t bytes, std::size_t align) noexcept {
        return m_bytes == bytes && (address_of(m_payload) & (align - 1)) == 0 ? remove() : nullptr;
    }
    // The start of the payload of the block that was kept last.
    [[nodiscard]] void* payload() const noexcept { return m_payload; }

    // False when there already is a block, or when all threads must be able to find this one.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool put(large_block& b) noexcept {
        if (m_block != nullptr || b.reserved_for != nullptr || b.total > k_most_bytes) return false;
        m_block = &b;
        m_payload = b.payload;
        m_bytes = b.bytes;
        m_total = b.total;
        return true;
    }

    // The block, or null.
    [[nodiscard]] large_block* remove() noexcept {
        large_block* const b = m_block;
        m_block = nullptr;
        return b;
    }

    [[nodiscard]] bool empty() const noexcept { return m_block == nullptr; }
    // Whether there is a block of about this size. A hint for other threads.
    [[nodiscard]] bool may_serve(std::size_t bytes) const noexcept {
        return !empty() && m_total >= bytes && m_total / 2 <= bytes;
    }
    // Properties of the kept block; require one.
    [[nodiscard]] std::size_t bytes() const noexcept { return m_bytes; }
    [[nodiscard]] std::size_t total() const noexcept { return m_total; }

private:
    observed<large_block*> m_block;
    void* m_payload = nullptr;
    observed<std::size_t> m_bytes;
    observed<std::size_t> m_total;
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
