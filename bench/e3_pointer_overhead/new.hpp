// SPDX-License-Identifier: BSL-1.0
// Contender `new`: shared_ptr(new int).
#pragma once

#include "e3_pointer_overhead/control_block.hpp"
#include "support/measure.hpp"

#include <cstdint>
#include <memory>

namespace bench::e3_pointer_overhead {

struct new_contender {
    using pointer = std::shared_ptr<int>;

    static void create_and_drop(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            std::shared_ptr<int> p(new int(static_cast<int>(i)));
            keep_alive(p.get());
        }
    }

    static pointer make(int value) { return std::shared_ptr<int>(new int(value)); }
    static void drop(pointer& p) { p.reset(); }
    static std::size_t control_block_bytes() { return separate_control_block_bytes(); }
};

}  // namespace bench::e3_pointer_overhead
