// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_rc`: ours, counted pointers of 8 bytes from the process-wide pool.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_rc_contender {
    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = pooled::rc_ptr<T>;

    template <class T, class... Args>
    pointer<T> make(Args&&... args) {
        return pooled::make_rc<T>(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(pooled::rc_ptr<T>& p) {
        p.reset();
    }
};

}  // namespace bench
