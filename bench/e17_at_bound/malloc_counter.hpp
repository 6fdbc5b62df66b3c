// SPDX-License-Identifier: BSL-1.0
// Contender `malloc_counter`: malloc behind an atomic counter that bounds the bytes requested: what a program writes that
// has no pool. It counts no overhead, so at the same bound it holds some more blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace bench::e17_at_bound {

class malloc_counter_contender {
public:
    // 0: no bound, and nothing is counted.
    explicit malloc_counter_contender(std::size_t most_bytes) : m_most(most_bytes) {}

    void* try_allocate(std::size_t bytes) {
        if (m_most != 0 && m_used.fetch_add(bytes, std::memory_order_relaxed) + bytes > m_most) {
            m_used.fetch_sub(bytes, std::memory_order_relaxed);
            return nullptr;
        }
        return std::malloc(bytes);
    }
    void deallocate(void* block, std::size_t bytes) {
        std::free(block);
        if (m_most != 0) m_used.fetch_sub(bytes, std::memory_order_relaxed);
    }

private:
    const std::size_t m_most;
    alignas(64) std::atomic<std::size_t> m_used{0};
};

}  // namespace bench::e17_at_bound
