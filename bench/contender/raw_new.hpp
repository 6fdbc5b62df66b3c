// SPDX-License-Identifier: BSL-1.0
// Contender `raw_new`: raw pointers from new and delete, no counts.
#pragma once

#include "contender/contender.hpp"

namespace bench {

struct raw_new_contender {
    static constexpr bool k_counted = false;
    static constexpr bool k_thread_safe = true;
    template <class T>
    using pointer = T*;

    template <class T, class... Args>
    T* make(Args&&... args) {
        return new T(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(T*& object) {
        delete object;
        object = nullptr;
    }
};

}  // namespace bench
