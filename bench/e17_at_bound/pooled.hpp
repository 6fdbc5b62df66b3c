// SPDX-License-Identifier: BSL-1.0
// Contender `pooled`: ours, a pool with max_bytes.
#pragma once

#include <pooled/pooled.hpp>

#include <cstddef>

namespace bench::e17_at_bound {

class pooled_contender {
public:
    explicit pooled_contender(std::size_t most_bytes)
        : m_pool(pooled::pool_options{.name = "bench", .max_bytes = most_bytes}) {}

    void* try_allocate(std::size_t bytes) { return m_pool.try_allocate(bytes); }
    void deallocate(void* block, std::size_t bytes) { m_pool.deallocate(block, bytes); }

private:
    pooled::pool m_pool;
};

}  // namespace bench::e17_at_bound
