// SPDX-License-Identifier: BSL-1.0
// Contender `foonathan`: allocate_shared on foonathan/memory's memory_pool; one thread only.
#pragma once

#include "contender/contender.hpp"

#include <foonathan/memory/memory_pool.hpp>
#include <foonathan/memory/std_allocator.hpp>

namespace bench {

namespace fm = foonathan::memory;

// Nodes hold the object and the control block of any standard library (at most 32 bytes with this allocator).
template <std::size_t ObjectBytes>
inline constexpr std::size_t k_foonathan_node_bytes = (ObjectBytes + 32 + 15) / 16 * 16;
inline constexpr std::size_t k_foonathan_first_nodes = 1024;

template <std::size_t ObjectBytes>
inline fm::memory_pool<> foonathan_pool_of{
    k_foonathan_node_bytes<ObjectBytes>,
    fm::memory_pool<>::min_block_size(k_foonathan_node_bytes<ObjectBytes>, k_foonathan_first_nodes)};

struct foonathan_contender : shared_contender {
    static constexpr bool k_thread_safe = false;

    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::allocate_shared<T>(fm::std_allocator<T, fm::memory_pool<>>(foonathan_pool_of<sizeof(T)>),
                                       std::forward<Args>(args)...);
    }
};

}  // namespace bench
