// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_recycled_rc`: ours, object_pool::acquire_rc, behind a counted pointer of 8 bytes.
#pragma once

#include "e9_recycled/object_pool.hpp"

namespace bench::e9_recycled {

struct pooled_recycled_rc_contender : on_object_pool {
    template <class T>
    using pointer = pooled::rc_ptr<T>;
    template <class T, class... Args>
    pointer<T> make(Args&&...) {
        return from<T>().acquire_rc();
    }
};

}  // namespace bench::e9_recycled
