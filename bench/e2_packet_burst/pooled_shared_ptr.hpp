// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_shared_ptr`: ours, a shared_ptr to a raw block whose deleter returns it; the control
// block is from malloc. As in the published experiment, for comparison: users want make_shared.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

#include <new>

namespace bench {

struct pooled_shared_ptr_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        pooled::pool* pool = &m_pool;
        return std::shared_ptr<T>(
            ::new (pool->allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...), [pool](T* object) {
                object->~T();
                pool->deallocate(object, sizeof(T), alignof(T));
            });
    }

private:
    pooled::pool m_pool{pooled::pool_options{.name = "bench"}};
};

}  // namespace bench
