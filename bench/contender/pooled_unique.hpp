// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_unique`: ours, owned by one pointer of 8 bytes, from the process-wide pool.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_unique_contender {
    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = pooled::unique_ptr<T>;

    template <class T, class... Args>
    pointer<T> make(Args&&... args) {
        return pooled::make_unique<T>(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(pooled::unique_ptr<T>& p) {
        p.reset();
    }
};

}  // namespace bench
