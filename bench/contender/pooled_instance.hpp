// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_instance`: ours, a separate pool.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_instance_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return m_pool.template make_shared<T>(std::forward<Args>(args)...);
    }
    void trim() { m_pool.trim(); }

private:
    pooled::pool m_pool{pooled::pool_options{.name = "bench"}};
};

}  // namespace bench
