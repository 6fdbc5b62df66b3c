// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_raw`: ours, raw blocks from a pool, no smart pointer.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

#include <new>

namespace bench {

struct pooled_raw_contender {
    static constexpr bool k_counted = false;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = T*;

    template <class T, class... Args>
    T* make(Args&&... args) {
        return ::new (m_pool.allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(T*& object) {
        object->~T();
        m_pool.deallocate(object, sizeof(T), alignof(T));
        object = nullptr;
    }

private:
    pooled::pool m_pool{pooled::pool_options{.name = "bench"}};
};

}  // namespace bench
