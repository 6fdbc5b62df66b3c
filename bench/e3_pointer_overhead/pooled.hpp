// SPDX-License-Identifier: BSL-1.0
// Contender `pooled`: pooled::make_shared<int>, ours.
#pragma once

#include <pooled/pooled.hpp>

#include "e3_pointer_overhead/control_block.hpp"
#include "support/measure.hpp"

#include <cstdint>
#include <memory>

namespace bench::e3_pointer_overhead {

struct pooled_contender {
    using pointer = std::shared_ptr<int>;

    static void create_and_drop(std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            std::shared_ptr<int> p = pooled::make_shared<int>(static_cast<int>(i));
            keep_alive(p.get());
        }
    }

    static pointer make(int value) { return pooled::make_shared<int>(value); }
    static void drop(pointer& p) { p.reset(); }
    static std::size_t control_block_bytes() { return joint_control_block_bytes(); }
};

}  // namespace bench::e3_pointer_overhead
