// SPDX-License-Identifier: BSL-1.0
// Contender `raw_new`: new and delete, the base line.
#pragma once

#include "support/measure.hpp"

#include <cstdint>

namespace bench::e3_pointer_overhead {

struct raw_new_contender {
    using pointer = int*;

    static void create_and_drop(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            int* p = new int(static_cast<int>(i));
            keep_alive(p);
            delete p;
        }
    }

    static pointer make(int value) { return new int(value); }
    static void drop(pointer& p) { delete p; }
};

}  // namespace bench::e3_pointer_overhead
