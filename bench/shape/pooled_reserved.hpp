// SPDX-License-Identifier: BSL-1.0
// Contender `pooled_reserved`: ours, the process-wide pool, its memory reserved before the clock starts.
#pragma once

#include "contender/pooled.hpp"

#include <cstddef>
#include <string_view>

namespace bench::shape {

struct pooled_reserved_contender : pooled_contender {
    static constexpr bool takes(std::string_view pattern) { return pattern == "fill"; }
    template <class T>
    void reserve(std::size_t count) {
        pooled::default_pool().reserve<T>(count);
    }
};

}  // namespace bench::shape
