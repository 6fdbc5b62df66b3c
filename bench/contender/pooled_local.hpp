// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_local`: ours, a pool for one thread, without atomics.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_local_contender : shared_contender {
    static constexpr bool k_thread_safe = false;

    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return m_pool.template make_shared<T>(std::forward<Args>(args)...);
    }
    void trim() { m_pool.trim(); }

private:
    pooled::local_pool m_pool{};
};

}  // namespace bench
