// SPDX-License-Identifier: BSL-1.0
// Contender `unique_ptr_new`: unique_ptr(new int).
#pragma once

#include "support/measure.hpp"

#include <cstdint>
#include <memory>

namespace bench::e3_pointer_overhead {

struct unique_ptr_new_contender {
    using pointer = std::unique_ptr<int>;

    static void create_and_drop(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            std::unique_ptr<int> p(new int(static_cast<int>(i)));
            keep_alive(p.get());
        }
    }

    static pointer make(int value) { return std::unique_ptr<int>(new int(value)); }
    static void drop(pointer& p) { p.reset(); }
};

}  // namespace bench::e3_pointer_overhead
