// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_recycled_unique`: ours, object_pool::acquire_unique, behind a pointer of 8 bytes.
#pragma once

#include "e9_recycled/object_pool.hpp"

namespace bench::e9_recycled {

struct pooled_recycled_unique_contender : on_object_pool {
    template <class T>
    using pointer = pooled::unique_ptr<T>;
    template <class T, class... Args>
    pointer<T> make(Args&&...) {
        return from<T>().acquire_unique();
    }
};

}  // namespace bench::e9_recycled
