// SPDX-License-Identifier: BSL-1.0
// Contender `pass_raw_pointer`: hands a shared_ptr to a function as the raw pointer it holds.
#pragma once

#include "support/measure.hpp"

#include <cstdint>
#include <memory>

namespace bench::e3_pointer_overhead {

struct pass_raw_pointer_contender {
    static void pass(std::uint64_t n) {
        const auto owner = std::make_shared<int>(1);
        for (std::uint64_t i = 0; i < n; ++i)
            take(owner.get());
    }

private:
    // Never inlined: the call is what is measured.
    [[gnu::noinline]] static void take(const int* p) { keep_alive(p); }
};

}  // namespace bench::e3_pointer_overhead
