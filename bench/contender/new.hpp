// SPDX-License-Identifier: BSL-1.0
// Contender `new`: shared_ptr(new T), two allocations an object.
#pragma once

#include "contender/contender.hpp"

namespace bench {

struct new_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::shared_ptr<T>(new T(std::forward<Args>(args)...));
    }
};

}  // namespace bench
