// SPDX-License-Identifier: BSL-1.0
// The common part of the contenders on object_pool, which differ in the handle.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"
#include "e9_recycled/buffer.hpp"

namespace bench::e9_recycled {

class on_object_pool {
public:
    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = true;
    static constexpr bool k_recycles = true;

    template <class Pointer>
    void drop(Pointer& p) {
        p.reset();
    }

protected:
    template <class T>
    using pool = pooled::object_pool<T>;
    template <class T>
    pool<T>& from() {
        return m_pools.of<T>();
    }

private:
    pool_of_each<pool> m_pools;
};

}  // namespace bench::e9_recycled
