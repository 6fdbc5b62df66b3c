// SPDX-License-Identifier: BSL-1.0
// Contender `pooled`: ours, the process-wide pool.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return pooled::make_shared<T>(std::forward<Args>(args)...);
    }
    void trim() { pooled::default_pool().trim(); }
};

}  // namespace bench
