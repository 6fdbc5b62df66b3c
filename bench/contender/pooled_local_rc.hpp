// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_local_rc`: ours, counted pointers of 8 bytes that count without atomics.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_local_rc_contender {
    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = false;
    template <class T>
    using pointer = pooled::local_rc_ptr<T>;

    template <class T, class... Args>
    pointer<T> make(Args&&... args) {
        return pooled::make_local_rc<T>(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(pointer<T>& p) {
        p.reset();
    }
    void trim() { pooled::default_pool().trim(); }
};

}  // namespace bench
