// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_allocate_shared`: std::allocate_shared on pooled::allocator.
#pragma once

#include <pooled/pooled.hpp>

#include "contender/contender.hpp"

namespace bench {

struct pooled_allocate_shared_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::allocate_shared<T>(pooled::allocator<T>{}, std::forward<Args>(args)...);
    }
};

}  // namespace bench
