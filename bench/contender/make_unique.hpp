// SPDX-License-Identifier: BSL-1.0
// Contender `make_unique`: std::make_unique, owned by one pointer.
#pragma once

#include "contender/contender.hpp"

#include <memory>

namespace bench {

struct make_unique_contender {
    static constexpr bool k_counted = true;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = std::unique_ptr<T>;

    template <class T, class... Args>
    std::unique_ptr<T> make(Args&&... args) {
        return std::make_unique<T>(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(std::unique_ptr<T>& p) {
        p.reset();
    }
};

}  // namespace bench
