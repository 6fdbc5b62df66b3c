// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_incremental`: ours, a pool whose drops only defer and whose allocations destroy.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_incremental_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return m_pool.template make_shared<T>(std::forward<Args>(args)...);
    }
    void drain() { m_pool.drain(); }
    void trim() { m_pool.trim(); }

private:
    pooled::pool m_pool{pooled::pool_options{.name = "bench", .teardown = pooled::teardown::incremental}};
};

}  // namespace bench
