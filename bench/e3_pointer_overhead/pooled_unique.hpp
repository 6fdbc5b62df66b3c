// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_unique`: pooled::make_unique<int>, ours.
#pragma once

#include <pooled/pooled.hpp>

#include "support/measure.hpp"

#include <cstdint>

namespace bench::e3_pointer_overhead {

struct pooled_unique_contender {
    using pointer = pooled::unique_ptr<int>;

    static void create_and_drop(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            pooled::unique_ptr<int> p = pooled::make_unique<int>(static_cast<int>(i));
            keep_alive(p.get());
        }
    }

    static pointer make(int value) { return pooled::make_unique<int>(value); }
    static void drop(pointer& p) { p.reset(); }
};

}  // namespace bench::e3_pointer_overhead
