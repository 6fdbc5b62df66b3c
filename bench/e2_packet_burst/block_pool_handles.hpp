// SPDX-License-Identifier: BSL-1.0
// The two further ways E2 uses its block pool: a shared_ptr whose deleter pushes, and raw pop and push.
#pragma once

#include "contender/block_pool.hpp"

#include <new>

namespace bench {

template <class Lock>
struct block_pool_raw_contender {
    static constexpr bool k_counted = false;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = T*;

    template <class T, class... Args>
    T* make(Args&&... args) {
        return ::new (pool<T>().pop()) T(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(T*& object) {
        object->~T();
        pool<T>().push(object);
        object = nullptr;
    }

    template <class T>
    static block_pool<Lock>& pool() {
        return block_pool_of<sizeof(T) + k_block_headroom, Lock>;
    }
};

// Only the object is in the pool; the control block is from malloc.
template <class Lock>
struct block_pool_shared_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        block_pool_raw_contender<Lock> raw;
        return std::shared_ptr<T>(raw.template make<T>(std::forward<Args>(args)...),
                                  [](T* object) { block_pool_raw_contender<Lock>{}.drop(object); });
    }
};

}  // namespace bench
