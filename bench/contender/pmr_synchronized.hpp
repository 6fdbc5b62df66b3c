// SPDX-License-Identifier: BSL-1.0
// Contender `pmr_synchronized`: allocate_shared on a std::pmr::synchronized_pool_resource.
#pragma once

#include "contender/contender.hpp"

#include <memory_resource>

namespace bench {

struct pmr_synchronized_contender : shared_contender {
    static constexpr bool k_thread_safe = true;

    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::allocate_shared<T>(std::pmr::polymorphic_allocator<T>(&m_pool),
                                       std::forward<Args>(args)...);
    }

private:
    std::pmr::synchronized_pool_resource m_pool;
};

}  // namespace bench
