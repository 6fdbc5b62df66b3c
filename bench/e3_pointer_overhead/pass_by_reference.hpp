// SPDX-License-Identifier: BSL-1.0
// Contender `pass_by_reference`: hands a shared_ptr to a function by reference to const.
#pragma once

#include "support/measure.hpp"

#include <cstdint>
#include <memory>

namespace bench::e3_pointer_overhead {

struct pass_by_reference_contender {
    static void pass(std::uint64_t n) {
        const auto owner = std::make_shared<int>(1);
        for (std::uint64_t i = 0; i < n; ++i)
            take(owner);
    }

private:
    // Never inlined: the call is what is measured.
    [[gnu::noinline]] static void take(const std::shared_ptr<int>& p) { keep_alive(p.get()); }
};

}  // namespace bench::e3_pointer_overhead
