// SPDX-License-Identifier: BSL-1.0
// Contender `make_shared`: what most programs use, and the base of the ratios.
#pragma once

#include "contender/contender.hpp"

namespace bench {

struct make_shared_contender : shared_contender {
    template <class T, class... Args>
    std::shared_ptr<T> make(Args&&... args) {
        return std::make_shared<T>(std::forward<Args>(args)...);
    }
};

}  // namespace bench
