// SPDX-License-Identifier: BSL-1.0
// Contender `foonathan_locked`: allocate_shared on foonathan/memory's memory_pool behind a mutex.
#pragma once

#include "contender/foonathan.hpp"

#include <foonathan/memory/allocator_storage.hpp>
#include <foonathan/memory/threading.hpp>

namespace bench {

using foonathan_locked_pool = fm::thread_safe_allocator<fm::memory_pool<>>;

template <std::size_t ObjectBytes>
inline foonathan_locked_pool foonathan_locked_pool_of{fm::memory_pool<>(
    k_foonathan_node_bytes<ObjectBytes>,
    fm::memory_pool<>::min_block_size(k_foonathan_node_bytes<ObjectBytes>, k_foonathan_first_nodes))};

struct foonathan_locked_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::allocate_shared<T>(
            fm::std_allocator<T, foonathan_locked_pool>(foonathan_locked_pool_of<sizeof(T)>),
            std::forward<Args>(args)...);
    }
};

}  // namespace bench
