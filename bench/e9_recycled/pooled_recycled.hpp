// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_recycled`: ours, object_pool::acquire, behind a std::shared_ptr whose control block lies with the buffer.
#pragma once

#include "e9_recycled/object_pool.hpp"

namespace bench::e9_recycled {

struct pooled_recycled_contender : on_object_pool {
    template <class T>
    using pointer = std::shared_ptr<T>;
    template <class T, class... Args>
    pointer<T> make(Args&&...) {
        return from<T>().acquire();
    }
};

}  // namespace bench::e9_recycled
