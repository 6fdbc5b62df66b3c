// SPDX-License-Identifier: BSL-1.0
// Contender `pmr_unsynchronized`: allocate_shared on a std::pmr::unsynchronized_pool_resource; one thread only.
#pragma once

#include "contender/contender.hpp"

#include <memory_resource>

namespace bench {

struct pmr_unsynchronized_contender : shared_contender {
    static constexpr bool k_thread_safe = false;

    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::allocate_shared<T>(std::pmr::polymorphic_allocator<T>(&m_pool),
                                       std::forward<Args>(args)...);
    }

private:
    std::pmr::unsynchronized_pool_resource m_pool;
};

}  // namespace bench
